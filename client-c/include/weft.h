/* Reads and writes volumes of a Weft array, and says which requests must come first.
 *
 * A request is taken by one of weft_read() and its like and has a name at once, which others can
 * say that they come after. Its end is waited for with weft_wait(). Requests that come after
 * others are done as if they began after those have ended; if one of those is not done, neither
 * are they. After a crash or a power cut, whatever is there of a request, all that it comes
 * after is there too.
 *
 * Functions may be called from any thread; a request is waited for by one thread.
 *
 * Link with -lweft. The Rust crate weft-client, on which this rests, says more.
 */
#ifndef WEFT_H
#define WEFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A volume that is open. */
typedef struct weft_volume weft_volume;

/* A request that was taken. */
typedef struct weft_request weft_request;

/* A request's name. With ordering=sequencer it may be sent to other hosts, whose requests may
 * come after it. */
typedef struct weft_id {
    uint64_t host;
    uint64_t number;
} weft_id;

/* What kind of thing was in the way. */
typedef enum weft_kind {
    WEFT_OK = 0,
    WEFT_ADDRESS = 1,      /* that is no address of a node */
    WEFT_UNREACHABLE = 2,  /* no node could be reached for too long; what was sent may have happened */
    WEFT_PROTOCOL = 3,     /* what is at the address speaks something else */
    WEFT_NO_VOLUME = 4,    /* there is no such volume */
    WEFT_SECOND_WRITER = 5,/* nothing orders requests to the volume, and another host writes to it */
    WEFT_FULL = 6,         /* as much is outstanding as the node takes (weft_try only) */
    WEFT_INVALID = 7,      /* no length, or too long */
    WEFT_OUT_OF_RANGE = 8, /* past the end of the volume */
    WEFT_LOST = 9,         /* more disks are lost than the layout bears */
    WEFT_NO_PROGRESS = 10, /* others came between each time */
    WEFT_ABORTED = 11,     /* one that must come first was not done: see because */
    WEFT_NEVER_ISSUED = 12,/* one that must come first was not sent in time: see because */
    WEFT_PLACE = 13,       /* it cannot have the place in the graph that it was given */
    WEFT_FAILED = 14,      /* the text says why */
    WEFT_ARGUMENT = 15,    /* an argument was NULL or not text */
    WEFT_TIMED_OUT = 16,   /* it has not ended in time (weft_wait_for only) */
    WEFT_NOT_ALLOWED = 17, /* the host has no right to it, or has not proved who it is */
    WEFT_CERTIFICATES = 18,/* the directory does not hold the certificates of a host */
    WEFT_NO_SPACE = 19     /* a disk of the thin volume is full */
} weft_kind;

/* Why something was not done. */
typedef struct weft_error {
    weft_kind kind;
    /* The request because of which, for WEFT_ABORTED and WEFT_NEVER_ISSUED; otherwise 0. It is the one that
     * failed for a reason of its own, however many come between, as far as the node knows. */
    weft_id because;
    /* In words, ended by 0, cut if need be. */
    char text[240];
} weft_error;

/* What a request does; see the functions of the same names. */
typedef enum weft_verb {
    WEFT_READ = 1,
    WEFT_WRITE = 2,
    WEFT_FLUSH = 3,
    WEFT_TRIM = 4,
    WEFT_WRITE_ZEROES = 5,
    WEFT_WRITE_DURABLE = 6 /* a write that has ended only when it is safe from a power cut */
} weft_verb;

/* Where a function says why it fails it takes an error, which may be NULL, and sets it also if it
 * succeeds. Where it takes names it takes `count` of them at `after`, which may be NULL if count
 * is 0. */

/* Opens the volume of this name ("" means the first) at the first of `count` addresses where a
 * node answers: HOST:PORT, the path of a socket, or a URI as `weft status` shows it. NULL if that
 * fails. To be closed with weft_close(). */
weft_volume *weft_open(const char *const *addresses, size_t count, const char *name,
                       weft_error *error);

/* How patient a host is, in milliseconds; 0 means as without this. */
typedef struct weft_options {
    uint32_t open_patience_ms; /* to look for a node when the volume is opened: 5,000 */
    uint32_t patience_ms;      /* to look for a node when the connection broke, before all that is
                                * outstanding fails with WEFT_UNREACHABLE: 120,000 */
    uint32_t stall_ms;         /* a node that owes answers is given up after so much silence: 40,000 */
} weft_options;

/* The same with other patience. NULL options are the usual ones. */
weft_volume *weft_open_with(const char *const *addresses, size_t count, const char *name,
                            const weft_options *options, weft_error *error);

/* The same over TLS: the host proves who it is by the certificates in `directory`, which
 * `weft host certify` has written. */
weft_volume *weft_open_tls(const char *const *addresses, size_t count, const char *name,
                           const char *directory, const weft_options *options,
                           weft_error *error);

/* Closes a volume. What was taken is still done, as long as the process runs; requests can still
 * be waited for. NULL is no volume, and nothing is done. */
void weft_close(weft_volume *volume);

/* Its size in bytes. */
uint64_t weft_size(const weft_volume *volume);

/* The most bytes that a read or a write may have. */
uint32_t weft_max_length(const weft_volume *volume);

/* Each of these takes a request, and waits for room if there is none. NULL if it cannot be sent;
 * otherwise weft_wait() must be called for it, or weft_forget(). What is to be written has been
 * copied when they return. */
weft_request *weft_read(weft_volume *volume, uint64_t offset, uint32_t length,
                        const weft_id *after, size_t count, weft_error *error);
weft_request *weft_write(weft_volume *volume, uint64_t offset, const void *data, uint32_t length,
                         const weft_id *after, size_t count, weft_error *error);
/* A write that has ended only when it is safe from a power cut. (With the journal on, as volumes
 * have it unless they were made without, every write is.) */
weft_request *weft_write_durable(weft_volume *volume, uint64_t offset, const void *data,
                                 uint32_t length, const weft_id *after, size_t count,
                                 weft_error *error);
weft_request *weft_flush(weft_volume *volume, const weft_id *after, size_t count,
                         weft_error *error);
weft_request *weft_trim(weft_volume *volume, uint64_t offset, uint64_t length,
                        const weft_id *after, size_t count, weft_error *error);
weft_request *weft_write_zeroes(weft_volume *volume, uint64_t offset, uint64_t length,
                                const weft_id *after, size_t count, weft_error *error);

/* Takes any of these, but if there is no room it is not taken and the kind is WEFT_FULL. `data`
 * is for writes only. */
weft_request *weft_try(weft_volume *volume, weft_verb verb, uint64_t offset, const void *data,
                       uint64_t length, const weft_id *after, size_t count, weft_error *error);

/* Takes any of these, which comes after all that were taken before it and have not ended: a barrier. If
 * one of them is not done, neither is it. What comes after the barrier names it. */
weft_request *weft_after_all(weft_volume *volume, weft_verb verb, uint64_t offset,
                             const void *data, uint64_t length, weft_error *error);

/* For event loops: a descriptor that is readable while weft_next_ended() has something to say. It
 * is only to be polled, and is closed by weft_close(). The ends of requests that are taken from then on
 * are kept until weft_next_ended() says them. -1 if the process has no descriptor left. */
int weft_descriptor(weft_volume *volume, weft_error *error);

/* The next request that has ended, done or not; each once. Its weft_wait() does not wait. Two zeros if
 * there is none until the descriptor is readable again. */
weft_id weft_next_ended(weft_volume *volume);

/* Prints a name as errors and logs do, into `room` bytes at `text`, ended by 0 and cut if need be.
 * Returns how many bytes it has without the 0. 64 are enough. */
size_t weft_id_text(weft_id id, char *text, size_t room);

/* The request's name. */
weft_id weft_request_id(const weft_request *request);

/* Whether the request has ended: 1 or 0. */
int weft_has_ended(const weft_request *request);

/* Waits until the request has ended, and frees it. WEFT_OK if it was done; of a read, what was read
 * is then at `buffer`, which has room for `length` bytes (no more are copied). For others buffer
 * may be NULL. */
weft_kind weft_wait(weft_request *request, void *buffer, size_t length, weft_error *error);

/* The same, but waits for so many milliseconds at most. WEFT_TIMED_OUT if it has not ended by then: it
 * is not freed, goes on, and can be waited for again. */
weft_kind weft_wait_for(weft_request *request, uint32_t milliseconds, void *buffer, size_t length,
                        weft_error *error);

/* Frees a request that nobody waits for. It is done all the same. NULL is no request. */
void weft_forget(weft_request *request);

#ifdef __cplusplus
}
#endif

#endif
