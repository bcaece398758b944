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
    WEFT_ARGUMENT = 15     /* an argument was NULL or not text */
} weft_kind;

/* Why something was not done. */
typedef struct weft_error {
    weft_kind kind;
    /* The request because of which, for WEFT_ABORTED and WEFT_NEVER_ISSUED; otherwise 0. */
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

/* The request's name. */
weft_id weft_request_id(const weft_request *request);

/* Whether the request has ended: 1 or 0. */
int weft_has_ended(const weft_request *request);

/* Waits until the request has ended, and frees it. WEFT_OK if it was done; of a read, what was read
 * is then at `buffer`, which has room for `length` bytes (no more are copied). For others buffer
 * may be NULL. */
weft_kind weft_wait(weft_request *request, void *buffer, size_t length, weft_error *error);

/* Frees a request that nobody waits for. It is done all the same. NULL is no request. */
void weft_forget(weft_request *request);

#ifdef __cplusplus
}
#endif

#endif
