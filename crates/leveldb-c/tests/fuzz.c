/* Any call in any order, with any handles: those that there are, and null pointers. Nothing may end
 * the process, and an error is a text of a known kind.
 *
 *     fuzz DIR SEED CALLS
 *
 * DIR is an empty directory. Prints `done`. What C cannot check is kept: a handle is not used after
 * it was freed, but for snapshots in read options, and lengths are those of the memory.
 */
#include "leveldb/c.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long seed;
static long call;

#define CHECK(condition) check((condition), #condition, __LINE__)

static void check(int is_true, const char *what, int line)
{
    if (!is_true) {
        fprintf(stderr, "fuzz.c:%d: SEED=%lu call=%ld: %s\n", line, seed, call, what);
        exit(1);
    }
}

static uint64_t state;

static uint32_t below(uint32_t limit)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint32_t) ((state * 0x2545f4914f6cdd1dULL) >> 32) % limit;
}

/* Handles: some are null at any time. */
enum { EACH = 3 };

static leveldb_t *dbs[EACH];
static leveldb_options_t *options[EACH];
static leveldb_readoptions_t *reads[EACH];
static leveldb_writeoptions_t *writes[EACH];
static leveldb_iterator_t *iters[EACH];
static leveldb_writebatch_t *batches[EACH];
static leveldb_comparator_t *orders[EACH];
static leveldb_filterpolicy_t *policies[EACH];
static leveldb_cache_t *caches[EACH];
static leveldb_env_t *envs[EACH];
static const leveldb_snapshot_t *snapshots[EACH];

static char names[EACH][4096];
static char *error;

#define ANY(pool) ((pool)[below(EACH)])

static void look_at_error(void)
{
    static const char *kinds[] = { "Invalid argument: ", "Not implemented: ", "Corruption: ",
                                   "IO error: " };
    if (error == NULL)
        return;
    int is_known = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        is_known |= strncmp(error, kinds[i], strlen(kinds[i])) == 0;
    check(is_known, error, __LINE__);
    /* Nothing here damages a file, and nothing fails inside. */
    check(strncmp(error, "Corruption", 10) != 0, error, __LINE__);
    check(strstr(error, "internal error") == NULL, error, __LINE__);
    /* Sometimes it stays, for a later one to take its place. */
    if (below(3)) {
        leveldb_free(error);
        error = NULL;
    }
}

static char **any_place(void)
{
    return below(10) ? &error : NULL;
}

enum { BYTES_MAX = 1 << 16 };

static char bytes[BYTES_MAX + 8];

static size_t any_len(void)
{
    return below(20) == 0 ? below(BYTES_MAX) : below(4);
}

/* Bytes of a key or a value: keys differ in a few bits. */
static const char *any_bytes(void)
{
    return below(15) == 0 ? NULL : bytes + below(3);
}

static const char *any_name(void)
{
    uint32_t index = below(EACH + 1);
    return index < EACH ? names[index] : below(2) ? NULL : "/proc/no/such";
}

static int compare(void *unused, const char *a, size_t alen, const char *b, size_t blen)
{
    (void) unused;
    int found = memcmp(b, a, alen < blen ? alen : blen);
    return found ? found : alen < blen ? -1 : alen > blen;
}

static const char *name_of(void *unused)
{
    (void) unused;
    return "test.fuzz";
}

static char *no_filter(void *unused, const char *const *keys, const size_t *lens, int count,
                       size_t *len)
{
    (void) unused, (void) keys, (void) lens;
    *len = (size_t) count % 3;
    return count % 2 ? calloc(1, 3) : NULL;
}

static unsigned char may_match(void *unused, const char *key, size_t len, const char *filter,
                               size_t filter_len)
{
    (void) unused, (void) key, (void) len, (void) filter, (void) filter_len;
    return 1;
}

static void seen(void *unused, const char *k, size_t klen, const char *v, size_t vlen)
{
    (void) unused;
    CHECK(k != NULL && v != NULL && klen <= BYTES_MAX && vlen <= BYTES_MAX);
}

static void seen_delete(void *unused, const char *k, size_t klen)
{
    seen(unused, k, klen, "", 0);
}

static void handles(void)
{
    uint32_t at = below(EACH);
    int made = below(4) != 0;
    switch (below(11)) {
    case 0:
        leveldb_close(dbs[at]);
        dbs[at] = leveldb_open(ANY(options), any_name(), any_place());
        break;
    case 1:
        leveldb_options_destroy(options[at]);
        options[at] = made ? leveldb_options_create() : NULL;
        leveldb_options_set_create_if_missing(options[at], below(8) != 0);
        break;
    case 2:
        leveldb_readoptions_destroy(reads[at]);
        reads[at] = made ? leveldb_readoptions_create() : NULL;
        break;
    case 3:
        leveldb_writeoptions_destroy(writes[at]);
        writes[at] = made ? leveldb_writeoptions_create() : NULL;
        break;
    case 4:
        leveldb_iter_destroy(iters[at]);
        iters[at] = made ? leveldb_create_iterator(ANY(dbs), ANY(reads)) : NULL;
        break;
    case 5:
        leveldb_writebatch_destroy(batches[at]);
        batches[at] = made ? leveldb_writebatch_create() : NULL;
        break;
    case 6:
        leveldb_comparator_destroy(orders[at]);
        orders[at] = made ? leveldb_comparator_create(NULL, NULL, below(6) ? compare : NULL,
                                                      below(6) ? name_of : NULL)
                          : NULL;
        break;
    case 7:
        leveldb_filterpolicy_destroy(policies[at]);
        policies[at] =
            !made ? NULL
            : below(2)
                ? leveldb_filterpolicy_create_bloom((int) below(100) - 10)
                : leveldb_filterpolicy_create(NULL, NULL, below(6) ? no_filter : NULL,
                                              below(6) ? may_match : NULL,
                                              below(6) ? name_of : NULL);
        break;
    case 8:
        leveldb_cache_destroy(caches[at]);
        caches[at] = made ? leveldb_cache_create_lru(below(1 << 22)) : NULL;
        break;
    case 9:
        leveldb_env_destroy(envs[at]);
        envs[at] = made ? leveldb_create_default_env() : NULL;
        break;
    default:
        leveldb_release_snapshot(ANY(dbs), snapshots[at]);
        snapshots[at] = made ? leveldb_create_snapshot(ANY(dbs)) : NULL;
    }
}

static void settings(void)
{
    leveldb_options_t *of = ANY(options);
    switch (below(15)) {
    case 0:
        /* An order makes most databases refuse to open. */
        leveldb_options_set_comparator(of, below(3) ? NULL : ANY(orders));
        break;
    case 1:
        leveldb_options_set_filter_policy(of, ANY(policies));
        break;
    case 2:
        leveldb_options_set_create_if_missing(of, below(8) != 0);
        break;
    case 3:
        leveldb_options_set_error_if_exists(of, below(8) == 0);
        break;
    case 4:
        leveldb_options_set_paranoid_checks(of, (unsigned char) below(2));
        break;
    case 5:
        leveldb_options_set_env(of, ANY(envs));
        break;
    case 6:
        leveldb_options_set_info_log(of, NULL);
        break;
    case 7:
        leveldb_options_set_write_buffer_size(of, below(2) ? below(1 << 20) : 0);
        break;
    case 8:
        leveldb_options_set_max_open_files(of, (int) below(200) - 100);
        break;
    case 9:
        leveldb_options_set_cache(of, ANY(caches));
        break;
    case 10:
        leveldb_options_set_block_size(of, below(2) ? below(1 << 14) : SIZE_MAX);
        break;
    case 11:
        leveldb_options_set_block_restart_interval(of, (int) below(40) - 10);
        break;
    case 12:
        leveldb_options_set_max_file_size(of, below(2) ? below(1 << 24) : SIZE_MAX);
        break;
    case 13:
        leveldb_options_set_compression(of, (int) below(5) - 1);
        break;
    default:
        leveldb_readoptions_set_verify_checksums(ANY(reads), (unsigned char) below(2));
        leveldb_readoptions_set_fill_cache(ANY(reads), (unsigned char) below(2));
        leveldb_readoptions_set_snapshot(ANY(reads), ANY(snapshots));
        leveldb_writeoptions_set_sync(ANY(writes), below(20) == 0);
    }
}

static void work(void)
{
    size_t len = 7;
    uint64_t size = 7;
    const char *start = bytes, *limit = bytes + 2;
    size_t lens = 1;
    char *found;
    switch (below(9)) {
    case 0:
    case 1:
        leveldb_put(ANY(dbs), ANY(writes), any_bytes(), any_len(), any_bytes(), any_len(),
                    any_place());
        break;
    case 2:
        leveldb_delete(ANY(dbs), ANY(writes), any_bytes(), any_len(), any_place());
        break;
    case 3:
        leveldb_write(ANY(dbs), ANY(writes), ANY(batches), any_place());
        break;
    case 4:
    case 5:
        found = leveldb_get(ANY(dbs), ANY(reads), any_bytes(), any_len(), &len, any_place());
        CHECK(found != NULL || len == 0);
        leveldb_free(found);
        break;
    case 6:
        found = leveldb_property_value(ANY(dbs), below(2) ? "leveldb.stats" : any_name());
        leveldb_free(found);
        leveldb_approximate_sizes(ANY(dbs), 1, below(9) ? &start : NULL, &lens, &limit, &lens,
                                  &size);
        CHECK(size != 7);
        break;
    case 7:
        if (below(8) == 0)
            leveldb_compact_range(ANY(dbs), any_bytes(), any_len(), any_bytes(), any_len());
        break;
    default:
        if (below(20) == 0)
            leveldb_destroy_db(ANY(options), any_name(), any_place());
        else if (below(10) == 0)
            leveldb_repair_db(ANY(options), any_name(), any_place());
    }
}

static void move(void)
{
    leveldb_iterator_t *iter = ANY(iters);
    size_t len = 7;
    switch (below(6)) {
    case 0:
        leveldb_iter_seek_to_first(iter);
        break;
    case 1:
        leveldb_iter_seek_to_last(iter);
        break;
    case 2:
        leveldb_iter_seek(iter, any_bytes(), any_len());
        break;
    case 3:
        leveldb_iter_next(iter);
        break;
    case 4:
        leveldb_iter_prev(iter);
        break;
    default:
        leveldb_iter_get_error(iter, any_place());
    }
    const char *key = leveldb_iter_key(iter, &len);
    CHECK((key != NULL) == (leveldb_iter_valid(iter) != 0));
    CHECK(key != NULL || len == 0);
    key = leveldb_iter_value(iter, below(2) ? &len : NULL);
    CHECK((key != NULL) == (leveldb_iter_valid(iter) != 0));
}

static void change(void)
{
    switch (below(6)) {
    case 0:
        leveldb_writebatch_clear(ANY(batches));
        break;
    case 1:
    case 2:
        leveldb_writebatch_put(ANY(batches), any_bytes(), any_len(), any_bytes(), any_len());
        break;
    case 3:
        leveldb_writebatch_delete(ANY(batches), any_bytes(), any_len());
        break;
    case 4:
        leveldb_writebatch_iterate(ANY(batches), NULL, below(4) ? seen : NULL,
                                   below(4) ? seen_delete : NULL);
        break;
    default:
        /* It doubles. */
        if (below(10) == 0)
            leveldb_writebatch_append(ANY(batches), ANY(batches));
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    for (int i = 0; i < EACH; i++)
        snprintf(names[i], sizeof names[i], "%s/%d", argv[1], i);
    seed = strtoul(argv[2], NULL, 10);
    state = seed * 0x9e3779b97f4a7c15ULL + 1;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char) (i % 7);
    long calls = atol(argv[3]);
    long opened = 0;
    for (call = 0; call < calls; call++) {
        switch (below(10)) {
        case 0:
            handles();
            break;
        case 1:
            settings();
            break;
        case 2:
        case 3:
        case 4:
        case 5:
            work();
            break;
        case 6:
        case 7:
            move();
            break;
        default:
            change();
        }
        look_at_error();
        opened += dbs[0] != NULL;
    }
    CHECK(opened > calls / 50);
    for (int i = 0; i < EACH; i++) {
        leveldb_iter_destroy(iters[i]);
        leveldb_release_snapshot(NULL, snapshots[i]);
        leveldb_close(dbs[i]);
        leveldb_options_destroy(options[i]);
        leveldb_readoptions_destroy(reads[i]);
        leveldb_writeoptions_destroy(writes[i]);
        leveldb_writebatch_destroy(batches[i]);
        leveldb_comparator_destroy(orders[i]);
        leveldb_filterpolicy_destroy(policies[i]);
        leveldb_cache_destroy(caches[i]);
        leveldb_env_destroy(envs[i]);
    }
    leveldb_free(error);
    puts("done");
    return 0;
}
