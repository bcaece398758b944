/* Writes a log record and the data that it tells of, without waiting in between.
 *
 *   cc log.c -I../include -lweft -o log && ./log /srv/weft/weft.sock vol0
 */
#include <stdio.h>
#include <string.h>

#include "weft.h"

static int fails(const char *what, const weft_error *why)
{
    fprintf(stderr, "%s: %s\n", what, why->text);
    return 1;
}

int main(int argc, char **argv)
{
    const char *addresses[1];
    const char *record = "put 4096 bytes of 7 at 1 MiB";
    unsigned char data[4096], seen[4096];
    weft_error why;
    weft_volume *volume;
    weft_request *log, *write, *read, *bad, *late;
    weft_id ids[2];
    weft_kind kind;
    int waited = 0;

    if (argc != 3) {
        fprintf(stderr, "usage: %s ADDRESS VOLUME\n", argv[0]);
        return 2;
    }
    addresses[0] = argv[1];
    volume = weft_open(addresses, 1, argv[2], &why);
    if (!volume)
        return fails("open", &why);

    /* The data come after the record: they are on no disk unless the record is. */
    memset(data, 7, sizeof data);
    log = weft_write(volume, 0, record, (uint32_t)strlen(record), NULL, 0, &why);
    if (!log)
        return fails("log", &why);
    ids[0] = weft_request_id(log);
    write = weft_write(volume, 1 << 20, data, sizeof data, ids, 1, &why);
    if (!write)
        return fails("write", &why);
    ids[1] = weft_request_id(write);
    read = weft_read(volume, 1 << 20, sizeof seen, ids, 2, &why);
    if (!read)
        return fails("read", &why);
    /* A millisecond at a time: whoever waits may do other things in between. */
    do
        kind = weft_wait_for(read, 1, seen, sizeof seen, &why);
    while (kind == WEFT_TIMED_OUT && ++waited < 10000);
    if (kind != WEFT_OK)
        return fails("read", &why);
    if (!weft_has_ended(log) || !weft_has_ended(write) || memcmp(data, seen, sizeof data) != 0) {
        fprintf(stderr, "the read does not see what comes before it\n");
        return 1;
    }
    if (weft_wait(log, NULL, 0, &why) != WEFT_OK || weft_wait(write, NULL, 0, &why) != WEFT_OK)
        return fails("write", &why);

    /* What comes after a request that is not done is not done either. */
    bad = weft_write(volume, weft_size(volume), data, sizeof data, NULL, 0, &why);
    if (!bad)
        return fails("write past the end", &why);
    ids[0] = weft_request_id(bad);
    late = weft_try(volume, WEFT_WRITE_ZEROES, 1 << 20, NULL, sizeof data, ids, 1, &why);
    if (!late)
        return fails("write zeroes", &why);
    if (weft_wait(late, NULL, 0, &why) != WEFT_ABORTED || why.because.number != ids[0].number) {
        fprintf(stderr, "it was to be aborted, and was not: %s\n", why.text);
        return 1;
    }
    printf("aborted, as it must be: %s\n", why.text);
    weft_forget(bad);
    weft_close(volume);
    return 0;
}
