/* What LevelDB's callers must not do: null pointers everywhere, handles that were released, and
 * everything from several threads at once. Every call returns, with an error where it has a place
 * for one.
 *
 *     hostile DIR
 *
 * DIR is an empty directory. Prints `done`.
 */
#include "leveldb/c.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) check((condition), #condition, __LINE__)
#define REFUSED() refused(&error, __LINE__)

static void check(int is_true, const char *what, int line)
{
    if (!is_true) {
        fprintf(stderr, "hostile.c:%d: %s\n", line, what);
        exit(1);
    }
}

static void refused(char **error, int line)
{
    check(*error != NULL && strncmp(*error, "Invalid argument: ", 18) == 0,
          *error ? *error : "no error", line);
    leveldb_free(*error);
    *error = NULL;
}

static leveldb_options_t *options;
static leveldb_readoptions_t *reads;
static leveldb_writeoptions_t *writes;

static void nulls_without_a_database(void)
{
    char *error = NULL;
    size_t len = 7;
    uint64_t size = 7;
    CHECK(leveldb_open(NULL, "x", &error) == NULL);
    REFUSED();
    CHECK(leveldb_open(options, NULL, &error) == NULL);
    REFUSED();
    CHECK(leveldb_open(NULL, NULL, NULL) == NULL);
    leveldb_close(NULL);
    leveldb_put(NULL, writes, "k", 1, "v", 1, &error);
    REFUSED();
    leveldb_put(NULL, writes, "k", 1, "v", 1, NULL);
    leveldb_delete(NULL, writes, "k", 1, &error);
    REFUSED();
    leveldb_write(NULL, writes, NULL, &error);
    REFUSED();
    CHECK(leveldb_get(NULL, reads, "k", 1, &len, &error) == NULL && len == 0);
    REFUSED();
    leveldb_iterator_t *iter = leveldb_create_iterator(NULL, reads);
    leveldb_iter_seek_to_first(iter);
    CHECK(!leveldb_iter_valid(iter));
    leveldb_iter_get_error(iter, &error);
    REFUSED();
    leveldb_iter_destroy(iter);
    CHECK(leveldb_create_snapshot(NULL) == NULL);
    leveldb_release_snapshot(NULL, NULL);
    CHECK(leveldb_property_value(NULL, "leveldb.stats") == NULL);
    leveldb_approximate_sizes(NULL, 1, NULL, NULL, NULL, NULL, &size);
    CHECK(size == 0);
    leveldb_compact_range(NULL, NULL, 0, NULL, 0);
    leveldb_destroy_db(NULL, NULL, &error);
    REFUSED();
    leveldb_repair_db(NULL, "x", &error);
    REFUSED();
}

static void nulls_of_other_handles(void)
{
    char *error = NULL;
    size_t len = 7;
    leveldb_iter_destroy(NULL);
    CHECK(!leveldb_iter_valid(NULL));
    leveldb_iter_seek_to_first(NULL);
    leveldb_iter_seek_to_last(NULL);
    leveldb_iter_seek(NULL, NULL, 5);
    leveldb_iter_next(NULL);
    leveldb_iter_prev(NULL);
    CHECK(leveldb_iter_key(NULL, &len) == NULL && len == 0);
    CHECK(leveldb_iter_value(NULL, NULL) == NULL);
    leveldb_iter_get_error(NULL, &error);
    REFUSED();
    leveldb_writebatch_destroy(NULL);
    leveldb_writebatch_clear(NULL);
    leveldb_writebatch_put(NULL, "k", 1, "v", 1);
    leveldb_writebatch_delete(NULL, "k", 1);
    leveldb_writebatch_iterate(NULL, NULL, NULL, NULL);
    leveldb_writebatch_append(NULL, NULL);
    leveldb_options_destroy(NULL);
    leveldb_options_set_comparator(NULL, NULL);
    leveldb_options_set_filter_policy(NULL, NULL);
    leveldb_options_set_create_if_missing(NULL, 1);
    leveldb_options_set_error_if_exists(NULL, 1);
    leveldb_options_set_paranoid_checks(NULL, 1);
    leveldb_options_set_env(NULL, NULL);
    leveldb_options_set_info_log(NULL, NULL);
    leveldb_options_set_write_buffer_size(NULL, 1);
    leveldb_options_set_max_open_files(NULL, 1);
    leveldb_options_set_cache(NULL, NULL);
    leveldb_options_set_block_size(NULL, 1);
    leveldb_options_set_block_restart_interval(NULL, 1);
    leveldb_options_set_max_file_size(NULL, 1);
    leveldb_options_set_compression(NULL, 1);
    leveldb_comparator_destroy(NULL);
    leveldb_filterpolicy_destroy(NULL);
    leveldb_readoptions_destroy(NULL);
    leveldb_readoptions_set_verify_checksums(NULL, 1);
    leveldb_readoptions_set_fill_cache(NULL, 1);
    leveldb_readoptions_set_snapshot(NULL, NULL);
    leveldb_writeoptions_destroy(NULL);
    leveldb_writeoptions_set_sync(NULL, 1);
    leveldb_cache_destroy(NULL);
    leveldb_env_destroy(NULL);
    CHECK(leveldb_env_get_test_directory(NULL) == NULL);
}

/* Null pointers in place of functions and of bytes, on a database. */
static void nulls_on(leveldb_t *db, const char *name)
{
    char *error = NULL;
    size_t len = 7;
    leveldb_comparator_t *order = leveldb_comparator_create(NULL, NULL, NULL, NULL);
    leveldb_options_set_comparator(options, order);
    CHECK(leveldb_open(options, name, &error) == NULL);
    REFUSED();
    leveldb_options_set_comparator(options, NULL);
    leveldb_comparator_destroy(order);

    leveldb_put(db, NULL, "k", 1, "v", 1, &error);
    CHECK(error == NULL);
    leveldb_put(db, writes, NULL, 5, "v", 1, &error);
    REFUSED();
    leveldb_put(db, writes, "k", 1, NULL, 5, &error);
    REFUSED();
    leveldb_delete(db, writes, NULL, 5, &error);
    REFUSED();
    leveldb_write(db, writes, NULL, &error);
    REFUSED();
    CHECK(leveldb_get(db, reads, NULL, 5, &len, &error) == NULL && len == 0);
    REFUSED();
    char *value = leveldb_get(db, NULL, "k", 1, NULL, NULL);
    CHECK(value != NULL && value[0] == 'v');
    leveldb_free(value);
    CHECK(leveldb_property_value(db, NULL) == NULL);
    leveldb_compact_range(db, NULL, 5, NULL, 5);
    leveldb_approximate_sizes(db, -1, NULL, NULL, NULL, NULL, NULL);
    leveldb_approximate_sizes(db, 1, NULL, NULL, NULL, NULL, NULL);

    /* A batch with a null pointer in it is refused as a whole. */
    leveldb_writebatch_t *batch = leveldb_writebatch_create();
    leveldb_writebatch_put(batch, "other", 5, "v", 1);
    leveldb_writebatch_put(batch, NULL, 5, "v", 1);
    leveldb_writebatch_iterate(batch, NULL, NULL, NULL);
    leveldb_write(db, writes, batch, &error);
    REFUSED();
    CHECK(leveldb_get(db, reads, "other", 5, &len, &error) == NULL && error == NULL);
    leveldb_writebatch_clear(batch);
    leveldb_writebatch_put(batch, "other", 5, "v", 1);
    leveldb_write(db, writes, batch, &error);
    CHECK(error == NULL);
    leveldb_writebatch_destroy(batch);

    leveldb_iterator_t *iter = leveldb_create_iterator(db, NULL);
    leveldb_iter_seek(iter, NULL, 5);
    CHECK(!leveldb_iter_valid(iter));
    leveldb_iter_get_error(iter, &error);
    REFUSED();
    leveldb_iter_destroy(iter);
}

/* Snapshots that were released, or are of another database. */
static void lost_snapshots(leveldb_t *db, leveldb_t *other)
{
    char *error = NULL;
    size_t len;
    const leveldb_snapshot_t *snapshot = leveldb_create_snapshot(db);
    leveldb_readoptions_set_snapshot(reads, snapshot);
    CHECK(leveldb_get(other, reads, "k", 1, &len, &error) == NULL);
    REFUSED();
    leveldb_release_snapshot(db, snapshot);
    CHECK(leveldb_get(db, reads, "k", 1, &len, &error) == NULL);
    REFUSED();
    leveldb_iterator_t *iter = leveldb_create_iterator(db, reads);
    leveldb_iter_get_error(iter, &error);
    REFUSED();
    leveldb_iter_destroy(iter);
    leveldb_readoptions_set_snapshot(reads, NULL);
}

/* Iterators and snapshots that outlive their database, as those of languages with a collector. */
static void late(const char *name)
{
    char *error = NULL;
    size_t len;
    leveldb_t *db = leveldb_open(options, name, &error);
    CHECK(error == NULL);
    leveldb_put(db, writes, "late", 4, "v", 1, &error);
    leveldb_iterator_t *iter = leveldb_create_iterator(db, reads);
    const leveldb_snapshot_t *snapshot = leveldb_create_snapshot(db);
    leveldb_close(db);
    leveldb_iter_seek(iter, "late", 4);
    CHECK(leveldb_iter_valid(iter) && leveldb_iter_key(iter, &len)[3] == 'e');
    /* The directory is free meanwhile. */
    db = leveldb_open(options, name, &error);
    CHECK(error == NULL);
    leveldb_release_snapshot(db, snapshot);
    leveldb_close(db);
    leveldb_iter_destroy(iter);
}

enum { THREADS = 4, ROUNDS = 400 };

struct worker {
    leveldb_t *db;
    int number;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    leveldb_writeoptions_t *own_writes = leveldb_writeoptions_create();
    leveldb_readoptions_t *own_reads = leveldb_readoptions_create();
    char *error = NULL, key[32];
    for (int round = 0; round < ROUNDS; round++) {
        /* Two keys of each batch are the same in every moment. */
        int len = snprintf(key, sizeof key, "left%d", worker->number);
        leveldb_writebatch_t *batch = leveldb_writebatch_create();
        leveldb_writebatch_put(batch, key, (size_t) len, (char *) &round, sizeof round);
        len = snprintf(key, sizeof key, "right%d", worker->number);
        leveldb_writebatch_put(batch, key, (size_t) len, (char *) &round, sizeof round);
        leveldb_write(worker->db, own_writes, batch, &error);
        CHECK(error == NULL);
        leveldb_writebatch_destroy(batch);
        if (round % 20 == 0)
            leveldb_compact_range(worker->db, "left", 4, "right9", 6);

        const leveldb_snapshot_t *snapshot = leveldb_create_snapshot(worker->db);
        leveldb_readoptions_set_snapshot(own_reads, snapshot);
        for (int other = 0; other < THREADS; other++) {
            int found[2] = { -1, -1 };
            for (int side = 0; side < 2; side++) {
                size_t got;
                len = snprintf(key, sizeof key, side ? "right%d" : "left%d", other);
                char *value =
                    leveldb_get(worker->db, own_reads, key, (size_t) len, &got, &error);
                CHECK(error == NULL);
                if (value != NULL) {
                    CHECK(got == sizeof round);
                    memcpy(&found[side], value, got);
                }
                leveldb_free(value);
            }
            CHECK(found[0] == found[1]);
        }
        leveldb_iterator_t *iter = leveldb_create_iterator(worker->db, own_reads);
        leveldb_iter_seek(iter, "left", 4);
        CHECK(leveldb_iter_valid(iter));
        leveldb_iter_destroy(iter);
        leveldb_readoptions_set_snapshot(own_reads, NULL);
        leveldb_release_snapshot(worker->db, snapshot);
    }
    leveldb_writeoptions_destroy(own_writes);
    leveldb_readoptions_destroy(own_reads);
    return NULL;
}

static void threads(leveldb_t *db)
{
    pthread_t running[THREADS];
    struct worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i].db = db;
        workers[i].number = i;
        CHECK(pthread_create(&running[i], NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(running[i], NULL) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    char name[4096], other_name[4096], *error = NULL;
    snprintf(name, sizeof name, "%s/db", argv[1]);
    snprintf(other_name, sizeof other_name, "%s/other", argv[1]);
    options = leveldb_options_create();
    reads = leveldb_readoptions_create();
    writes = leveldb_writeoptions_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_write_buffer_size(options, 0);
    leveldb_options_set_max_open_files(options, -1);
    leveldb_options_set_block_size(options, 0);
    leveldb_options_set_block_restart_interval(options, -5);
    leveldb_options_set_max_file_size(options, 0);
    leveldb_options_set_compression(options, 77);
    nulls_without_a_database();
    nulls_of_other_handles();
    leveldb_t *db = leveldb_open(options, name, &error);
    CHECK(error == NULL);
    leveldb_t *other = leveldb_open(options, other_name, &error);
    CHECK(error == NULL);
    nulls_on(db, name);
    lost_snapshots(db, other);
    leveldb_close(other);
    late(other_name);
    threads(db);
    leveldb_close(db);
    leveldb_options_destroy(options);
    leveldb_readoptions_destroy(reads);
    leveldb_writeoptions_destroy(writes);
    puts("done");
    return 0;
}
