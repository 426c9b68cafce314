/*
 * LevelDB's interface for C, version 1.23, of a library that stores in flodb. docs/leveldb-c.md
 * says how to build with it, and what differs from LevelDB.
 *
 * Made by cbindgen from crates/leveldb-c: change the sources, not this file.
 *
 * A call that can fail gets the address of a text: a null pointer, or a text of malloc(). On
 * success it stays as it is; on failure the old text is freed, and a new one of malloc() is put
 * there. Results of malloc() are freed by leveldb_free(). Any number of threads may use a database,
 * a comparator or a filter policy at once; other handles belong to one thread at a time.
 */

#ifndef KEYRACK_LEVELDB_C_H
#define KEYRACK_LEVELDB_C_H

#include <stddef.h>
#include <stdint.h>

typedef struct leveldb_filelock_t leveldb_filelock_t;
typedef struct leveldb_randomfile_t leveldb_randomfile_t;
typedef struct leveldb_seqfile_t leveldb_seqfile_t;
typedef struct leveldb_writablefile_t leveldb_writablefile_t;

// Tables are not compressed.
#define leveldb_no_compression 0

// Tables are compressed: here as `flodb` does it by default, with LZ4.
#define leveldb_snappy_compression 1

// A capacity for cached blocks.
typedef struct leveldb_cache_t leveldb_cache_t;

// An order of keys of the caller's.
typedef struct leveldb_comparator_t leveldb_comparator_t;

// A place in the keys of a database, as they were when the iterator was made.
typedef struct leveldb_iterator_t leveldb_iterator_t;

// An open database. Any number of threads use it at once.
typedef struct leveldb_t leveldb_t;

// The system that databases are on.
typedef struct leveldb_env_t leveldb_env_t;

// A rule by which tables get filters.
typedef struct leveldb_filterpolicy_t leveldb_filterpolicy_t;

// Nothing makes one.
typedef struct leveldb_logger_t leveldb_logger_t;

// Options that a database is opened, repaired or destroyed with.
typedef struct leveldb_options_t leveldb_options_t;

// Options of reads.
typedef struct leveldb_readoptions_t leveldb_readoptions_t;

// A moment of a database to read from.
typedef struct leveldb_snapshot_t leveldb_snapshot_t;

// A batch of writes. One thread at a time changes it.
typedef struct leveldb_writebatch_t leveldb_writebatch_t;

// Options of writes.
typedef struct leveldb_writeoptions_t leveldb_writeoptions_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes options with LevelDB's defaults.
struct leveldb_options_t *leveldb_options_create(void);

// Frees options. Databases that were opened with them go on.
void leveldb_options_destroy(struct leveldb_options_t *options);

// The order of keys; null for that of bytes.
void leveldb_options_set_comparator(struct leveldb_options_t *options,
                                    struct leveldb_comparator_t *comparator);

// Which filters tables get; null for the Bloom filters that tables have by default.
void leveldb_options_set_filter_policy(struct leveldb_options_t *options,
                                       struct leveldb_filterpolicy_t *policy);

// How many blocks are kept in memory, in the bytes of a cache; null for the default.
void leveldb_options_set_cache(struct leveldb_options_t *options, struct leveldb_cache_t *cache);

// Has no effect: files are those of the system.
void leveldb_options_set_env(struct leveldb_options_t *_options, struct leveldb_env_t *_env);

// Has no effect: nothing is logged.
void leveldb_options_set_info_log(struct leveldb_options_t *_options,
                                  struct leveldb_logger_t *_log);

// Whether a database is made where there is none: no.
void leveldb_options_set_create_if_missing(struct leveldb_options_t *options, uint8_t value);

// Whether a database that is there is refused: no.
void leveldb_options_set_error_if_exists(struct leveldb_options_t *options, uint8_t value);

// Whether all tables are read and checked when the database is opened, and when they are written:
// no. Blocks are checked when they are read in any case.
void leveldb_options_set_paranoid_checks(struct leveldb_options_t *options, uint8_t value);

// Bytes of a memtable, 64 KiB to 1 GiB.
void leveldb_options_set_write_buffer_size(struct leveldb_options_t *options, size_t value);

// Files that are open at once, 74 to 50,000.
void leveldb_options_set_max_open_files(struct leveldb_options_t *options, int value);

// Bytes of a block of a table, 1 KiB to 4 MiB.
void leveldb_options_set_block_size(struct leveldb_options_t *options, size_t value);

// Keys in a block from one that is stored whole to the next, at least 1.
void leveldb_options_set_block_restart_interval(struct leveldb_options_t *options, int value);

// Bytes of a table, 1 MiB to 1 GiB.
void leveldb_options_set_max_file_size(struct leveldb_options_t *options, size_t value);

// 0 for tables without compression; for anything else they are compressed by LZ4.
void leveldb_options_set_compression(struct leveldb_options_t *options, int value);

// Opens the database in the directory `name`. Null with an error if it cannot be opened.
struct leveldb_t *leveldb_open(const struct leveldb_options_t *options,
                               const char *name,
                               char **errptr);

// Closes a database. Iterators and snapshots of it may be freed later.
void leveldb_close(struct leveldb_t *db);

// Stores a value under a key.
void leveldb_put(struct leveldb_t *db,
                 const struct leveldb_writeoptions_t *options,
                 const char *key,
                 size_t keylen,
                 const char *val,
                 size_t vallen,
                 char **errptr);

// Removes a key, whether it is there or not.
void leveldb_delete(struct leveldb_t *db,
                    const struct leveldb_writeoptions_t *options,
                    const char *key,
                    size_t keylen,
                    char **errptr);

// Applies the writes of a batch as one, each after those before it.
void leveldb_write(struct leveldb_t *db,
                   const struct leveldb_writeoptions_t *options,
                   struct leveldb_writebatch_t *batch,
                   char **errptr);

// The value of a key, in memory of `malloc`, and its length in `*vallen`. Null, with the length
// 0, if the key is not there; that is no error.
char *leveldb_get(struct leveldb_t *db,
                  const struct leveldb_readoptions_t *options,
                  const char *key,
                  size_t keylen,
                  size_t *vallen,
                  char **errptr);

// What is known under a name, as a text of `malloc`; null if the name is unknown.
char *leveldb_property_value(struct leveldb_t *db, const char *propname);

// About how many bytes of files each of the ranges takes, from its first key to the one after its
// last.
void leveldb_approximate_sizes(struct leveldb_t *db,
                               int num_ranges,
                               const char *const *range_start_key,
                               const size_t *range_start_key_len,
                               const char *const *range_limit_key,
                               const size_t *range_limit_key_len,
                               uint64_t *sizes);

// Merges what was written of the keys from `start_key` to `limit_key`, both included, so that what
// was replaced or removed takes no space any more. A null pointer is an open end.
void leveldb_compact_range(struct leveldb_t *db,
                           const char *start_key,
                           size_t start_key_len,
                           const char *limit_key,
                           size_t limit_key_len);

// Removes the database in the directory `name`, and the directory if nothing else is in it.
// Nothing to do where there is none.
void leveldb_destroy_db(const struct leveldb_options_t *_options, const char *name, char **errptr);

// Restores what can be restored of a damaged database, which is not open. What cannot be used goes
// to the directory `lost` in it.
void leveldb_repair_db(const struct leveldb_options_t *options, const char *name, char **errptr);

// Makes an iterator, which stands nowhere at first. Never null: what went wrong is the error of
// the iterator.
struct leveldb_iterator_t *leveldb_create_iterator(struct leveldb_t *db,
                                                   const struct leveldb_readoptions_t *options);

// Frees an iterator.
void leveldb_iter_destroy(struct leveldb_iterator_t *iter);

// 1 if it stands on a key, 0 otherwise.
uint8_t leveldb_iter_valid(const struct leveldb_iterator_t *iter);

// Goes to the first key.
void leveldb_iter_seek_to_first(struct leveldb_iterator_t *iter);

// Goes to the last key.
void leveldb_iter_seek_to_last(struct leveldb_iterator_t *iter);

// Goes to the first key that is not before `k`.
void leveldb_iter_seek(struct leveldb_iterator_t *iter, const char *k, size_t klen);

// Goes to the next key; nowhere after the last one. Nothing happens nowhere.
void leveldb_iter_next(struct leveldb_iterator_t *iter);

// Goes to the key before; nowhere before the first one. Nothing happens nowhere.
void leveldb_iter_prev(struct leveldb_iterator_t *iter);

// The key here, until the iterator moves; null nowhere.
const char *leveldb_iter_key(const struct leveldb_iterator_t *iter, size_t *klen);

// The value here, until the iterator moves; null nowhere.
const char *leveldb_iter_value(const struct leveldb_iterator_t *iter, size_t *vlen);

// The first failure of the iterator, if there was one.
void leveldb_iter_get_error(const struct leveldb_iterator_t *iter, char **errptr);

// Makes an empty batch.
struct leveldb_writebatch_t *leveldb_writebatch_create(void);

// Frees a batch.
void leveldb_writebatch_destroy(struct leveldb_writebatch_t *batch);

// Removes all writes from a batch.
void leveldb_writebatch_clear(struct leveldb_writebatch_t *batch);

// Adds the storing of a value.
void leveldb_writebatch_put(struct leveldb_writebatch_t *batch,
                            const char *key,
                            size_t klen,
                            const char *val,
                            size_t vlen);

// Adds the removal of a key.
void leveldb_writebatch_delete(struct leveldb_writebatch_t *batch, const char *key, size_t klen);

// Shows the writes of a batch in their order, each to one of the functions. They must not change
// the batch.
void leveldb_writebatch_iterate(const struct leveldb_writebatch_t *batch,
                                void *state,
                                void (*put)(void *state,
                                            const char *k,
                                            size_t klen,
                                            const char *v,
                                            size_t vlen),
                                void (*deleted)(void *state, const char *k, size_t klen));

// Appends the writes of `source`, which may be the same batch.
void leveldb_writebatch_append(struct leveldb_writebatch_t *destination,
                               const struct leveldb_writebatch_t *source);

// Makes an order of keys of callbacks. `compare` returns less than, equal to or more than 0, and
// 0 only for keys of the same bytes; any thread calls it, several at once. `name` is asked once.
// `destructor` gets `state` when the comparator is destroyed and every database that was opened
// with it is closed.
struct leveldb_comparator_t *leveldb_comparator_create(void *state,
                                                       void (*destructor)(void *state),
                                                       int (*compare)(void *state,
                                                                      const char *a,
                                                                      size_t alen,
                                                                      const char *b,
                                                                      size_t blen),
                                                       const char *(*name)(void *state));

// Gives up an order. Its destructor runs here, or, if databases are open with it, when the last
// of them is closed. Options that have it are of no use until they get another one or null.
void leveldb_comparator_destroy(struct leveldb_comparator_t *comparator);

// Makes a rule of callbacks. `create_filter` gets the keys of a table and returns a filter that
// `malloc` made, which is freed here; `key_may_match` says whether a key may be one of those. Any
// thread calls them, several at once. `name` is asked once: 1 to 255 bytes. `destructor` gets
// `state` when the rule is destroyed and every database that was opened with it is closed.
struct leveldb_filterpolicy_t *leveldb_filterpolicy_create(void *state,
                                                           void (*destructor)(void *state),
                                                           char *(*create_filter)(void *state,
                                                                                  const char *const *key_array,
                                                                                  const size_t *key_length_array,
                                                                                  int num_keys,
                                                                                  size_t *filter_length),
                                                           uint8_t (*key_may_match)(void *state,
                                                                                    const char *key,
                                                                                    size_t length,
                                                                                    const char *filter,
                                                                                    size_t filter_length),
                                                           const char *(*name)(void *state));

// Makes a rule for Bloom filters with so many bits a key, 1 to 64.
struct leveldb_filterpolicy_t *leveldb_filterpolicy_create_bloom(int bits_per_key);

// Gives up a rule. Its destructor runs here, or, if databases are open with it, when the last of
// them is closed. Options that have it are of no use until they get another one or null.
void leveldb_filterpolicy_destroy(struct leveldb_filterpolicy_t *policy);

// Makes options of reads: from now, and blocks that are read are cached.
struct leveldb_readoptions_t *leveldb_readoptions_create(void);

// Frees options of reads. Iterators that were made with them go on.
void leveldb_readoptions_destroy(struct leveldb_readoptions_t *options);

// Has no effect: the checksum of every block is computed when it is read.
void leveldb_readoptions_set_verify_checksums(struct leveldb_readoptions_t *_options,
                                              uint8_t _value);

// Whether blocks that a read had to load stay in memory: yes.
void leveldb_readoptions_set_fill_cache(struct leveldb_readoptions_t *options, uint8_t value);

// The moment to read from; null is that of the read. A read after its release is an error.
void leveldb_readoptions_set_snapshot(struct leveldb_readoptions_t *options,
                                      const struct leveldb_snapshot_t *snapshot);

// Makes options of writes: they return when the kernel has them.
struct leveldb_writeoptions_t *leveldb_writeoptions_create(void);

// Frees options of writes.
void leveldb_writeoptions_destroy(struct leveldb_writeoptions_t *options);

// Whether a write returns when it survives a power loss: no, it survives the end of the process.
void leveldb_writeoptions_set_sync(struct leveldb_writeoptions_t *options, uint8_t value);

// Keeps this moment of a database readable. Null if `db` is null.
const struct leveldb_snapshot_t *leveldb_create_snapshot(struct leveldb_t *db);

// Gives up a moment. Iterators that read from it go on.
void leveldb_release_snapshot(struct leveldb_t *_db, const struct leveldb_snapshot_t *snapshot);

// Makes a capacity: so many bytes for each database that is opened with it; with 0 nothing is
// cached.
struct leveldb_cache_t *leveldb_cache_create_lru(size_t capacity);

// Frees a capacity. Databases that were opened with it go on.
void leveldb_cache_destroy(struct leveldb_cache_t *cache);

// Makes a handle of the system.
struct leveldb_env_t *leveldb_create_default_env(void);

// Frees a handle of the system.
void leveldb_env_destroy(struct leveldb_env_t *env);

// A directory for tests, made if it is missing: that of the variable TEST_TMPDIR, or
// leveldbtest-UID below /tmp. Null if `env` is null. To be freed by [`leveldb_free`].
char *leveldb_env_get_test_directory(struct leveldb_env_t *env);

// Frees memory that a call of this library returned.
void leveldb_free(void *ptr);

// The version of LevelDB whose interface this is: 1.
int leveldb_major_version(void);

// The second part of that version: 23.
int leveldb_minor_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* KEYRACK_LEVELDB_C_H */
