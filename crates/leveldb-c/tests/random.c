/* Random calls beside a model, with any library that has LevelDB's interface.
 *
 *     random DIR SEED CALLS [repair]
 *
 * DIR is an empty directory. The model is a sorted array; every answer is compared with it. Prints
 * a digest of all answers, so that two libraries can be compared as well. A seed makes the same
 * calls each time. With `repair` databases are repaired between two openings, which with LevelDB may
 * bring back what was replaced, so it is not asked to.
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
        fprintf(stderr, "random.c:%d: SEED=%lu call=%ld: %s\n", line, seed, call, what);
        exit(1);
    }
}

/* Draws: xorshift64*. */
static uint64_t state;

static uint32_t draw(void)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint32_t) ((state * 0x2545f4914f6cdd1dULL) >> 32);
}

static uint32_t below(uint32_t limit)
{
    return draw() % limit;
}

/* The digest of all answers: FNV-1a. */
static uint64_t digest = 0xcbf29ce484222325ULL;

static void note(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        digest = (digest ^ (unsigned char) bytes[i]) * 0x100000001b3ULL;
    digest = (digest ^ len) * 0x100000001b3ULL;
}

struct bytes {
    char *at;
    size_t len;
};

static struct bytes copy(const char *from, size_t len)
{
    struct bytes made = { malloc(len + 1), len };
    memcpy(made.at, from, len);
    return made;
}

static struct bytes random_key(void)
{
    static const char letters[] = { 0, 'a', 'b', 'c', (char) 0xff };
    char key[12];
    size_t len = below(8) == 0 ? below(3) : 2 + below(5);
    for (size_t i = 0; i < len; i++)
        key[i] = letters[below(sizeof letters)];
    return copy(key, len);
}

static struct bytes random_value(void)
{
    static char value[20000];
    uint32_t kind = below(20);
    size_t len = kind == 0 ? 0 : kind == 1 ? 1 + below(sizeof value - 1) : 1 + below(200);
    char fill = (char) draw();
    for (size_t i = 0; i < len; i++)
        value[i] = i % 3 ? fill : (char) draw();
    return copy(value, len);
}

/* The order of keys: that of bytes, or backwards. */
static int is_backwards;

static int compare(void *unused, const char *a, size_t alen, const char *b, size_t blen)
{
    (void) unused;
    int found = memcmp(a, b, alen < blen ? alen : blen);
    if (found == 0)
        found = alen < blen ? -1 : alen > blen;
    return is_backwards ? -found : found;
}

static const char *name_of_order(void *unused)
{
    (void) unused;
    return "test.backwards";
}

static void nothing(void *unused)
{
    (void) unused;
}

/* A filter that knows the sums of the bytes of its keys. */
static unsigned char sum(const char *key, size_t len)
{
    unsigned char sum = (unsigned char) len;
    for (size_t i = 0; i < len; i++)
        sum = (unsigned char) (sum * 31 + (unsigned char) key[i]);
    return sum;
}

static char *create_filter(void *unused, const char *const *keys, const size_t *lens, int count,
                           size_t *len)
{
    (void) unused;
    char *filter = calloc(1, 32);
    for (int i = 0; i < count; i++) {
        unsigned char of = sum(keys[i], lens[i]);
        filter[of / 8] |= (char) (1 << of % 8);
    }
    *len = 32;
    return filter;
}

static unsigned char key_may_match(void *unused, const char *key, size_t len, const char *filter,
                                   size_t filter_len)
{
    (void) unused;
    unsigned char of = sum(key, len);
    return filter_len != 32 || (filter[of / 8] >> of % 8 & 1);
}

static const char *name_of_filter(void *unused)
{
    (void) unused;
    return "test.sums";
}

/* The model. */
struct entry {
    struct bytes key, value;
};

struct model {
    struct entry *entries;
    size_t count, room;
};

/* The index of the first key that is not before `key`. */
static size_t lower_bound(const struct model *model, struct bytes key)
{
    size_t low = 0, high = model->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        struct bytes at = model->entries[middle].key;
        if (compare(NULL, at.at, at.len, key.at, key.len) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int same(struct bytes a, const char *b, size_t len)
{
    return a.len == len && memcmp(a.at, b, len) == 0;
}

static struct entry *find(const struct model *model, struct bytes key)
{
    size_t at = lower_bound(model, key);
    int is_there = at < model->count && same(model->entries[at].key, key.at, key.len);
    return is_there ? &model->entries[at] : NULL;
}

static void set(struct model *model, struct bytes key, struct bytes value)
{
    struct entry *old = find(model, key);
    if (old != NULL) {
        free(old->value.at);
        old->value = copy(value.at, value.len);
        return;
    }
    size_t at = lower_bound(model, key);
    if (model->count == model->room) {
        model->room = model->room ? 2 * model->room : 16;
        model->entries = realloc(model->entries, model->room * sizeof(struct entry));
    }
    memmove(model->entries + at + 1, model->entries + at,
            (model->count - at) * sizeof(struct entry));
    model->entries[at].key = copy(key.at, key.len);
    model->entries[at].value = copy(value.at, value.len);
    model->count++;
}

static void unset(struct model *model, struct bytes key)
{
    struct entry *old = find(model, key);
    if (old == NULL)
        return;
    size_t at = (size_t) (old - model->entries);
    free(old->key.at);
    free(old->value.at);
    model->count--;
    memmove(old, old + 1, (model->count - at) * sizeof(struct entry));
}

static struct model copy_of(const struct model *model)
{
    struct model made = { malloc((model->count + 1) * sizeof(struct entry)), model->count,
                          model->count + 1 };
    for (size_t i = 0; i < model->count; i++) {
        struct entry *from = &model->entries[i];
        made.entries[i].key = copy(from->key.at, from->key.len);
        made.entries[i].value = copy(from->value.at, from->value.len);
    }
    return made;
}

static void clear(struct model *model)
{
    for (size_t i = 0; i < model->count; i++) {
        free(model->entries[i].key.at);
        free(model->entries[i].value.at);
    }
    free(model->entries);
    memset(model, 0, sizeof *model);
}

/* The database, and what goes with it. */
enum { SNAPSHOTS_MAX = 4 };

static const char *name;
static int repairs;
static leveldb_t *db;
static struct model model;
static leveldb_comparator_t *order;
static leveldb_filterpolicy_t *policy;
static leveldb_cache_t *cache;
static leveldb_writeoptions_t *writes;
static struct {
    const leveldb_snapshot_t *taken;
    struct model model;
} snapshots[SNAPSHOTS_MAX];

static void no_error(char *error)
{
    check(error == NULL, error ? error : "", __LINE__);
}

static leveldb_options_t *random_options(void)
{
    leveldb_options_t *options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_write_buffer_size(options, 65536u << below(3));
    leveldb_options_set_block_size(options, 1024u << below(4));
    leveldb_options_set_block_restart_interval(options, 1 + (int) below(20));
    leveldb_options_set_max_file_size(options, 1u << 20);
    leveldb_options_set_max_open_files(options, 80);
    leveldb_options_set_compression(options, (int) below(2));
    leveldb_options_set_paranoid_checks(options, (unsigned char) below(2));
    if (is_backwards)
        leveldb_options_set_comparator(options, order);
    switch (below(3)) {
    case 0:
        policy = leveldb_filterpolicy_create_bloom(1 + (int) below(15));
        break;
    case 1:
        policy = leveldb_filterpolicy_create(NULL, nothing, create_filter, key_may_match,
                                             name_of_filter);
        break;
    default:
        policy = NULL;
    }
    leveldb_options_set_filter_policy(options, policy);
    if (below(2)) {
        cache = leveldb_cache_create_lru(1u << (10 + below(12)));
        leveldb_options_set_cache(options, cache);
    }
    return options;
}

static void open_database(void)
{
    char *error = NULL;
    leveldb_options_t *options = random_options();
    db = leveldb_open(options, name, &error);
    no_error(error);
    leveldb_options_destroy(options);
}

static void release(int index)
{
    if (snapshots[index].taken != NULL) {
        leveldb_release_snapshot(db, snapshots[index].taken);
        snapshots[index].taken = NULL;
        clear(&snapshots[index].model);
    }
}

static void close_database(void)
{
    for (int i = 0; i < SNAPSHOTS_MAX; i++)
        release(i);
    leveldb_close(db);
    if (policy != NULL)
        leveldb_filterpolicy_destroy(policy);
    if (cache != NULL)
        leveldb_cache_destroy(cache);
    policy = NULL;
    cache = NULL;
}

/* Options of a read, and the model of the moment that it is from. */
static leveldb_readoptions_t *random_read(const struct model **from)
{
    leveldb_readoptions_t *reads = leveldb_readoptions_create();
    leveldb_readoptions_set_fill_cache(reads, (unsigned char) below(2));
    leveldb_readoptions_set_verify_checksums(reads, (unsigned char) below(2));
    uint32_t index = below(2 * SNAPSHOTS_MAX);
    *from = &model;
    if (index < SNAPSHOTS_MAX && snapshots[index].taken != NULL) {
        leveldb_readoptions_set_snapshot(reads, snapshots[index].taken);
        *from = &snapshots[index].model;
    }
    return reads;
}

static void write_one(void)
{
    char *error = NULL;
    struct bytes key = random_key(), value = random_value();
    leveldb_writeoptions_set_sync(writes, below(200) == 0);
    if (below(3)) {
        leveldb_put(db, writes, key.at, key.len, value.at, value.len, &error);
        set(&model, key, value);
    } else {
        leveldb_delete(db, writes, key.at, key.len, &error);
        unset(&model, key);
    }
    no_error(error);
    free(key.at);
    free(value.at);
}

static void apply_put(void *to, const char *k, size_t klen, const char *v, size_t vlen)
{
    struct bytes key = copy(k, klen), value = copy(v, vlen);
    note(k, klen);
    set(to, key, value);
    free(key.at);
    free(value.at);
}

static void apply_delete(void *to, const char *k, size_t klen)
{
    struct bytes key = copy(k, klen);
    note(k, klen);
    unset(to, key);
    free(key.at);
}

static void fill(leveldb_writebatch_t *batch, struct model *expected)
{
    for (uint32_t i = below(12); i > 0; i--) {
        struct bytes key = random_key(), value = random_value();
        if (below(3)) {
            leveldb_writebatch_put(batch, key.at, key.len, value.at, value.len);
            set(expected, key, value);
        } else {
            leveldb_writebatch_delete(batch, key.at, key.len);
            unset(expected, key);
        }
        free(key.at);
        free(value.at);
    }
}

static void write_batch(void)
{
    char *error = NULL;
    leveldb_writebatch_t *batch = leveldb_writebatch_create();
    leveldb_writebatch_t *more = leveldb_writebatch_create();
    struct model expected = copy_of(&model);
    if (below(10) == 0) {
        struct model dropped = copy_of(&model);
        fill(batch, &dropped);
        clear(&dropped);
        leveldb_writebatch_clear(batch);
    }
    fill(batch, &expected);
    fill(more, &expected);
    leveldb_writebatch_append(batch, more);
    leveldb_write(db, writes, batch, &error);
    no_error(error);
    /* What the batch shows is what it does. */
    leveldb_writebatch_iterate(batch, &model, apply_put, apply_delete);
    CHECK(model.count == expected.count);
    for (size_t i = 0; i < model.count; i++) {
        struct entry *one = &model.entries[i], *other = &expected.entries[i];
        CHECK(same(one->key, other->key.at, other->key.len));
        CHECK(same(one->value, other->value.at, other->value.len));
    }
    clear(&expected);
    leveldb_writebatch_destroy(batch);
    leveldb_writebatch_destroy(more);
}

static void get(void)
{
    char *error = NULL;
    size_t len = 77;
    const struct model *from;
    struct bytes key = random_key();
    leveldb_readoptions_t *reads = random_read(&from);
    char *value = leveldb_get(db, reads, key.at, key.len, &len, &error);
    no_error(error);
    struct entry *expected = find(from, key);
    CHECK((value != NULL) == (expected != NULL));
    if (value == NULL)
        CHECK(len == 0);
    else
        CHECK(same(expected->value, value, len));
    note(value ? value : "", len);
    leveldb_free(value);
    leveldb_readoptions_destroy(reads);
    free(key.at);
}

/* Whether an iterator stands at the entry with this index, or nowhere if that is beyond. */
static void stands_at(leveldb_iterator_t *iter, const struct model *from, size_t index)
{
    int is_there = index < from->count;
    CHECK(!!leveldb_iter_valid(iter) == is_there);
    if (!is_there)
        return;
    size_t key_len, value_len;
    const char *key = leveldb_iter_key(iter, &key_len);
    const char *value = leveldb_iter_value(iter, &value_len);
    CHECK(same(from->entries[index].key, key, key_len));
    CHECK(same(from->entries[index].value, value, value_len));
    note(key, key_len);
    note(value, value_len);
}

static void iterate(void)
{
    char *error = NULL;
    const struct model *read_from;
    leveldb_readoptions_t *reads = random_read(&read_from);
    /* Its own moment, since the database changes meanwhile. */
    struct model from = copy_of(read_from);
    leveldb_iterator_t *iter = leveldb_create_iterator(db, reads);
    leveldb_readoptions_destroy(reads);
    size_t nowhere = from.count, at = nowhere;
    stands_at(iter, &from, at);
    for (uint32_t moves = below(40); moves > 0; moves--) {
        uint32_t move = below(10);
        if (move == 0) {
            leveldb_iter_seek_to_first(iter);
            at = 0;
        } else if (move == 1) {
            leveldb_iter_seek_to_last(iter);
            at = from.count ? from.count - 1 : nowhere;
        } else if (move == 2) {
            struct bytes key = random_key();
            leveldb_iter_seek(iter, key.at, key.len);
            at = lower_bound(&from, key);
            free(key.at);
        } else if (move == 3) {
            write_one();
        } else if (at == nowhere) {
            continue;
        } else if (move < 7) {
            leveldb_iter_next(iter);
            at = at + 1;
        } else {
            leveldb_iter_prev(iter);
            at = at ? at - 1 : nowhere;
        }
        stands_at(iter, &from, at);
    }
    leveldb_iter_get_error(iter, &error);
    no_error(error);
    leveldb_iter_destroy(iter);
    clear(&from);
}

static void take_snapshot(void)
{
    int index = (int) below(SNAPSHOTS_MAX);
    release(index);
    if (below(3)) {
        snapshots[index].taken = leveldb_create_snapshot(db);
        snapshots[index].model = copy_of(&model);
    }
}

static void look(void)
{
    struct bytes low = random_key(), high = random_key();
    const char *starts[1] = { low.at }, *limits[1] = { high.at };
    uint64_t size = 0;
    leveldb_approximate_sizes(db, 1, starts, &low.len, limits, &high.len, &size);
    char *tables = leveldb_property_value(db, "leveldb.num-files-at-level0");
    CHECK(tables != NULL && atoi(tables) >= 0);
    leveldb_free(tables);
    CHECK(leveldb_property_value(db, "leveldb.nothing") == NULL);
    leveldb_compact_range(db, below(4) ? low.at : NULL, low.len, below(4) ? high.at : NULL,
                          high.len);
    free(low.at);
    free(high.at);
}

static void reopen(void)
{
    char *error = NULL;
    close_database();
    uint32_t kind = below(8);
    leveldb_options_t *options = random_options();
    if (kind == 0) {
        leveldb_destroy_db(options, name, &error);
        no_error(error);
        clear(&model);
        is_backwards = (int) below(2);
    } else if (kind < 3 && repairs) {
        leveldb_repair_db(options, name, &error);
        no_error(error);
    }
    leveldb_options_destroy(options);
    if (policy != NULL)
        leveldb_filterpolicy_destroy(policy);
    if (cache != NULL)
        leveldb_cache_destroy(cache);
    policy = NULL;
    cache = NULL;
    open_database();
}

int main(int argc, char **argv)
{
    CHECK(argc == 4 || argc == 5);
    char directory[4096];
    snprintf(directory, sizeof directory, "%s/db", argv[1]);
    name = directory;
    seed = strtoul(argv[2], NULL, 10);
    long calls = atol(argv[3]);
    repairs = argc == 5;
    state = seed * 0x9e3779b97f4a7c15ULL + 1;
    writes = leveldb_writeoptions_create();
    order = leveldb_comparator_create(NULL, nothing, compare, name_of_order);
    is_backwards = (int) below(2);
    open_database();
    for (call = 0; call < calls; call++) {
        uint32_t kind = below(1000);
        if (kind < 400)
            write_one();
        else if (kind < 500)
            write_batch();
        else if (kind < 800)
            get();
        else if (kind < 950)
            iterate();
        else if (kind < 985)
            take_snapshot();
        else if (kind < 993)
            look();
        else
            reopen();
    }
    close_database();
    leveldb_writeoptions_destroy(writes);
    leveldb_comparator_destroy(order);
    clear(&model);
    printf("%016llx\n", (unsigned long long) digest);
    return 0;
}
