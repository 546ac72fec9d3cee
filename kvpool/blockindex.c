/* SPDX-License-Identifier: MIT */
/* blockindex - records are written one by one into the page cache: a process that dies has lost
 * none. A machine that dies may have lost some, or have a record without its slot or the other way
 * round, which the sums show. A file that does not begin like one of ours is never written to. */
#include "kvpool/blockindex.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kvpool/pool.h"

#define HEAD_MAGIC "quireKV1"
#define RECORD_MAGIC 0x6b766231u
#define RECORD_BYTES 256u

struct head {
    char magic[8];
    struct hash key;
    uint64_t block_bytes, slot_count, seed;
    struct hash sum; /* of all before */
};

struct record {
    uint32_t magic, slot;
    struct block_record block;
    uint64_t sum; /* of all before */
};
_Static_assert(sizeof(struct record) <= RECORD_BYTES, "a record has its place");

/* In the head's page: what the file has cost its disk in a day; kept whatever the rest becomes. */
struct day {
    uint64_t magic, begin_us, bytes;
    uint64_t sum; /* of all before */
};
#define DAY_MAGIC 0x796164766b657571u
#define DAY_AT ((off_t)2048)

static struct hash head_sum(const struct head *h)
{
    return hash_bytes((struct hash){ 0 }, h, offsetof(struct head, sum));
}

static uint64_t record_sum(const struct record *r)
{
    return hash_bytes((struct hash){ RECORD_MAGIC, 0 }, r, offsetof(struct record, sum)).a;
}

static uint64_t day_sum(const struct day *d)
{
    return hash_bytes((struct hash){ DAY_MAGIC, 0 }, d, offsetof(struct day, sum)).a;
}

static off_t record_at(uint32_t slot)
{
    return (off_t)(BLOCKINDEX_PAGE + (size_t)slot * RECORD_BYTES);
}

static off_t data_begin(uint32_t slot_count)
{
    size_t end = (size_t)record_at(slot_count);
    return (off_t)((end + BLOCKINDEX_PAGE - 1) / BLOCKINDEX_PAGE * BLOCKINDEX_PAGE);
}

static bool transfer_all(int fd, bool write, void *bytes, size_t len, off_t at)
{
    char *p = bytes;
    while (len > 0) {
        ssize_t n = write ? pwrite(fd, p, len, at) : pread(fd, p, len, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static void read_day(struct blockindex *x)
{
    struct day d;
    if (!transfer_all(x->fd, false, &d, sizeof d, DAY_AT) || d.magic != DAY_MAGIC ||
        d.sum != day_sum(&d))
        return;
    x->day_begin_us = d.begin_us;
    x->day_bytes = d.bytes;
}

void blockindex_write_day(struct blockindex *x)
{
    struct day d = { DAY_MAGIC, x->day_begin_us, x->day_bytes, 0 };
    d.sum = day_sum(&d);
    (void)transfer_all(x->fd, true, &d, sizeof d, DAY_AT);
}

static off_t file_bytes(const struct blockindex *x)
{
    return x->data_begin + (off_t)(x->block_bytes * x->slot_count);
}

/* Why the file cannot be used as it is, or NULL. */
static const char *look(struct blockindex *x, const struct head *h, off_t bytes, uint32_t slots)
{
    struct hash sum = head_sum(h);
    if (memcmp(&sum, &h->sum, sizeof sum) != 0 || h->slot_count == 0 ||
        h->slot_count > KVPOOL_BLOCKS_MAX)
        return "its head is damaged";
    if (memcmp(&h->key, &x->key, sizeof x->key) != 0 || h->block_bytes != x->block_bytes)
        return "it was made with another model, KV type or version";
    if (slots > 0 && h->slot_count != slots)
        return "it has another size";
    x->slot_count = (uint32_t)h->slot_count;
    x->data_begin = data_begin(x->slot_count);
    x->seed = h->seed;
    return bytes < file_bytes(x) ? "it was cut short" : NULL;
}

static uint64_t secret_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec ^ (uint64_t)getpid();
    }
    return seed | 1;
}

static bool begin_anew(struct blockindex *x, uint32_t slot_count)
{
    struct head h = { .magic = HEAD_MAGIC };
    x->slot_count = slot_count;
    x->data_begin = data_begin(slot_count);
    x->seed = secret_seed();
    h.key = x->key;
    h.block_bytes = x->block_bytes;
    h.slot_count = slot_count;
    h.seed = x->seed;
    h.sum = head_sum(&h);
    return ftruncate(x->fd, 0) == 0 && ftruncate(x->fd, file_bytes(x)) == 0 &&
           transfer_all(x->fd, true, &h, sizeof h, 0);
}

static enum rc use_file(struct blockindex *x, const char *path, uint32_t slot_count, bool exact,
                        struct fault *fault)
{
    struct stat st;
    struct head h;
    if (fstat(x->fd, &st) != 0)
        return fault_set_errno(fault, RC_IO, "block file %s", path);
    if (!S_ISREG(st.st_mode))
        return fault_set(fault, RC_CORRUPT, "%s is not a file", path);
    if (flock(x->fd, LOCK_EX | LOCK_NB) != 0)
        return fault_set(fault, RC_AGAIN, "block file %s: another process uses it", path);
    memset(&h, 0, sizeof h);
    if (st.st_size > 0) {
        size_t len = st.st_size < (off_t)sizeof h ? (size_t)st.st_size : sizeof h;
        if (!transfer_all(x->fd, false, &h, len, 0))
            return fault_set_errno(fault, RC_IO, "block file %s cannot be read", path);
        if (memcmp(h.magic, HEAD_MAGIC, sizeof h.magic) != 0)
            return fault_set(fault, RC_CORRUPT, "%s is not a block file: left as it is", path);
        read_day(x);
        x->anew = look(x, &h, st.st_size, exact ? slot_count : 0);
        if (x->anew == NULL)
            return RC_OK;
    }
    if (!begin_anew(x, slot_count))
        return fault_set_errno(fault, RC_IO, "block file %s cannot be written", path);
    if (x->day_bytes > 0)
        blockindex_write_day(x);
    return RC_OK;
}

enum rc blockindex_open(struct blockindex *x, const char *path, uint32_t slot_count, bool exact,
                        struct fault *fault)
{
    x->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (x->fd < 0)
        return fault_set_errno(fault, RC_IO, "block file %s", path);
    enum rc rc = use_file(x, path, slot_count, exact, fault);
    if (rc != RC_OK)
        blockindex_close(x);
    return rc;
}

void blockindex_close(struct blockindex *x)
{
    if (x->fd >= 0)
        close(x->fd);
    x->fd = -1;
}

bool blockindex_read(struct blockindex *x, uint32_t slot, struct block_record *out)
{
    struct record r;
    if (!transfer_all(x->fd, false, &r, sizeof r, record_at(slot)) || r.magic == 0)
        return false;
    if (r.magic != RECORD_MAGIC || r.slot != slot || r.sum != record_sum(&r)) {
        x->damaged++;
        return false;
    }
    *out = r.block;
    return true;
}

void blockindex_write(struct blockindex *x, uint32_t slot, const struct block_record *record)
{
    struct record r;
    memset(&r, 0, sizeof r);
    if (record != NULL) {
        r.magic = RECORD_MAGIC;
        r.slot = slot;
        r.block = *record;
        r.sum = record_sum(&r);
    }
    (void)transfer_all(x->fd, true, &r, sizeof r, record_at(slot));
}
