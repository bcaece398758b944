/* Writes from an event loop: one thread, one descriptor to poll, as many requests under way as there is room for.
 *
 *   cc loop.c $(pkg-config --cflags --libs weft) -o loop && ./loop /srv/weft/weft.sock vol0
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "weft.h"

enum { WRITES = 300, BLOCK = 4096 };

static weft_request *requests[WRITES + 3]; /* by number, which counts from 1 */

static int fails(const char *what, const weft_error *why)
{
    fprintf(stderr, "%s: %s\n", what, why->text);
    return 1;
}

/* Ends what has ended. Returns how many, or -1. */
static int end_some(weft_volume *volume, weft_id *last)
{
    weft_error why;
    weft_id id;
    int ended = 0;

    for (id = weft_next_ended(volume); id.number; id = weft_next_ended(volume)) {
        if (id.number > WRITES + 2 || !requests[id.number]) {
            fprintf(stderr, "an end of what was not asked, or twice\n");
            return -1;
        }
        if (weft_wait(requests[id.number], NULL, 0, &why) != WEFT_OK) {
            fails("write", &why);
            return -1;
        }
        requests[id.number] = NULL;
        *last = id;
        ended++;
    }
    return ended;
}

int main(int argc, char **argv)
{
    const weft_options options = {2000, 2000, 0};
    const char *addresses[1];
    unsigned char block[BLOCK];
    char name[64];
    weft_error why;
    weft_volume *volume;
    weft_request *request;
    weft_id last = {0, 0};
    struct pollfd waits;
    int taken = 0, ended = 0, some;

    if (argc != 3) {
        fprintf(stderr, "usage: %s ADDRESS VOLUME\n", argv[0]);
        return 2;
    }
    addresses[0] = argv[1];
    volume = weft_open_with(addresses, 1, argv[2], &options, &why);
    if (!volume)
        return fails("open", &why);
    waits.fd = weft_descriptor(volume, &why);
    waits.events = POLLIN;
    if (waits.fd < 0)
        return fails("descriptor", &why);

    memset(block, 7, sizeof block);
    while (ended < WRITES + 2) {
        /* Take requests as long as there is room. The last is a barrier, after everything. */
        while (taken < WRITES + 2) {
            uint64_t offset = (uint64_t)taken * BLOCK;
            if (taken == WRITES + 1)
                request = weft_after_all(volume, WEFT_FLUSH, 0, NULL, 0, &why);
            else if (taken == WRITES)
                request = weft_write_durable(volume, offset, block, BLOCK, NULL, 0, &why);
            else
                request = weft_try(volume, WEFT_WRITE, offset, block, BLOCK, NULL, 0, &why);
            if (!request && why.kind == WEFT_FULL)
                break;
            if (!request)
                return fails("write", &why);
            requests[weft_request_id(request).number] = request;
            taken++;
        }
        if (poll(&waits, 1, 10000) != 1) {
            fprintf(stderr, "nothing ends: %d of %d have\n", ended, taken);
            return 1;
        }
        some = end_some(volume, &last);
        if (some < 0)
            return 1;
        ended += some;
    }
    weft_id_text(last, name, sizeof name);
    printf("%d have ended, the last was %s\n", ended, name);
    weft_close(volume);
    return 0;
}
