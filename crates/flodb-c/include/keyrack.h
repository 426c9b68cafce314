/*
 * Keyrack's persistent store for C: ordered keys and values of any bytes, in a directory.
 * docs/keyrack-c.md says how to build with it, and has a first program.
 *
 * Made by cbindgen from crates/flodb-c: change the sources, not this file.
 *
 * ANSWERS. A call that can fail answers a keyrack_code, and has as its last argument the address of
 * an error, or null. The error is null at first: `keyrack_error *error = NULL;`. A failure puts a
 * new one there and frees the old one; a success leaves it. keyrack_error_free frees the last. A
 * result that is a pointer is null after a failure. The library prints nothing and never ends the
 * process.
 *
 * OWNERSHIP. What a call puts into a place of the caller's (`**`) belongs to the caller, who frees
 * it by the call that is named there. What a call returns (`const char *`) belongs to the handle
 * that it was asked of. Arguments are copied before a call returns. A handle keeps what it needs,
 * so handles may be freed in any order, also after the store is closed; a handle that was freed is
 * no handle.
 *
 * THREADS. Any number at once may use a store, a key space and a snapshot. Options, batches,
 * iterators, lists and errors are for one thread at a time, and may go from one to another. So is a
 * transaction together with its iterators. "Threads" says it at each call.
 *
 * MISUSE. A null pointer in place of a handle, of a text or of the place of a result is
 * KEYRACK_USAGE or has no effect. So are unknown flags, lengths that no memory has, handles of
 * another store, and calls on a transaction that has ended. After keyrack_close calls answer
 * KEYRACK_CLOSED.
 */

#ifndef KEYRACK_H
#define KEYRACK_H

#include <stddef.h>
#include <stdint.h>

// The version of this interface. It changes when a program that was compiled against an earlier
// header cannot run with the library.
#define KEYRACK_ABI_VERSION 1

// For writes and transactions: return when it survives a power loss, and all before it.
#define KEYRACK_SYNC 1

// For transactions: snapshot isolation in place of serializable. Cheaper, as nothing that is only
// read is checked; write skew is possible.
#define KEYRACK_SNAPSHOT_ISOLATION 2

// What a call answers. The numbers never change; a later version may add some.
typedef enum keyrack_code {
    // It is done.
    KEYRACK_OK = 0,
    // The program asked for what cannot be: a null pointer, an unknown option, a handle of another
    // store, a transaction that has ended. Correct the program.
    KEYRACK_USAGE = 1,
    // Another process, or another handle, has the directory open.
    KEYRACK_LOCKED = 2,
    // The disk is full. Writes are taken again when there is space.
    KEYRACK_NO_SPACE = 3,
    // The machine refused: the message has the file and the reason.
    KEYRACK_IO = 4,
    // A file does not hold what was written to it: the message has the place.
    KEYRACK_CORRUPTION = 5,
    // An earlier failure was final: the store only reads until it is opened again.
    KEYRACK_POISONED = 6,
    // The store was closed.
    KEYRACK_CLOSED = 7,
    // Somebody else has changed what the transaction depends on. Nothing was written: run it
    // again.
    KEYRACK_CONFLICT = 8,
    // The owner of the row waits for this transaction. Roll it back, and run it again.
    KEYRACK_DEADLOCK = 9,
    // A file needs a compression that this library was built without.
    KEYRACK_UNSUPPORTED = 10,
    // The library has a defect. Close the store.
    KEYRACK_INTERNAL = 11,
} keyrack_code;

// Writes to the key spaces of one store.
typedef struct keyrack_batch keyrack_batch;

// A place in the keys of a space, as they were when the iterator was made.
typedef struct keyrack_iterator keyrack_iterator;

// A failure.
typedef struct keyrack_error keyrack_error;

// Something that a store did in the background. It lives until the listener returns.
typedef struct keyrack_event keyrack_event;

// Rows of a text and a number, which do not change.
typedef struct keyrack_list keyrack_list;

// What a store is opened with.
typedef struct keyrack_options keyrack_options;

// A moment of a store, for all of its key spaces.
typedef struct keyrack_snapshot keyrack_snapshot;

// An ordered set of keys of a store. Any number of threads use it at once.
typedef struct keyrack_space keyrack_space;

// A store that was opened.
typedef struct keyrack_store keyrack_store;

// Reads and writes that happen as if alone. It and its iterators belong to one thread at a time.
typedef struct keyrack_transaction keyrack_transaction;

// Is told of an event, with the context that it was set with.
//
// Threads: one of the store's, see keyrack_options_set_listener.
typedef void (*keyrack_listener)(void *context, const struct keyrack_event *event);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The KEYRACK_ABI_VERSION of the library that runs. A program compares it with that of its header.
//
// Threads: any.
uint32_t keyrack_abi_version(void);

// The version of the library, such as "0.1.0". It is there as long as the program.
//
// Threads: any.
const char *keyrack_version(void);

// Frees a value or a text that a call returned in memory of its own, which its comment says. Null
// is nothing.
//
// Threads: any.
void keyrack_free(void *memory);

// The name of a code, such as "conflict"; "unknown" for a number that is none. It is there as long
// as the program.
//
// Threads: any.
const char *keyrack_code_name(int code);

// The code of an error; KEYRACK_OK for null.
//
// Threads: any, until the error is freed.
enum keyrack_code keyrack_error_code(const struct keyrack_error *error);

// One line for people, which ends with a zero. It lives as long as the error. Empty for null.
//
// Threads: any, until the error is freed.
const char *keyrack_error_message(const struct keyrack_error *error);

// The key of a conflict or a deadlock, and its length in `*len`; null for other errors. It lives
// as long as the error.
//
// Threads: any, until the error is freed.
const char *keyrack_error_key(const struct keyrack_error *error, size_t *len);

// The name of the key space of that key; null if there is none. It lives as long as the error.
//
// Threads: any, until the error is freed.
const char *keyrack_error_space(const struct keyrack_error *error);

// Frees an error, its message and its key. Null is nothing.
//
// Threads: one, the last that uses the error.
void keyrack_error_free(struct keyrack_error *error);

// Makes options: of a new store the defaults, of another what it was last opened with. The caller
// frees them with keyrack_options_free.
//
// Threads: any.
struct keyrack_options *keyrack_options_new(void);

// Sets an option by its name in docs/keyrack-c.md. Sizes may end in k, M or G; yes and no are
// values, and auto for sizes that the memory budget decides. An unknown name and a value that
// cannot be are KEYRACK_USAGE, and change nothing. Both texts are copied.
//
// Threads: one at a time for `options`.
enum keyrack_code keyrack_options_set(struct keyrack_options *options,
                                      const char *name,
                                      const char *value,
                                      struct keyrack_error **error);

// As keyrack_options_set, with a number.
//
// Threads: one at a time for `options`.
enum keyrack_code keyrack_options_set_number(struct keyrack_options *options,
                                             const char *name,
                                             uint64_t value,
                                             struct keyrack_error **error);

// Frees options. Stores that were opened with them go on. Null is nothing.
//
// Threads: one, the last that uses the options.
void keyrack_options_free(struct keyrack_options *options);

// Has stores that are opened with these options tell `listener` what they do in the background:
// flushes, compactions, write stalls, errors. docs/engines/flodb.md has the events and their
// fields. Null is no listener.
//
// A store calls it on one thread of its own, one event after the other, and holds no lock
// meanwhile: it may make any call on the store, and closing is one. An exception of C++ must not
// leave it. `context` stays the caller's, and must be there until keyrack_close has returned, or
// all handles of the store are freed; if the listener closes or frees it, until the listener
// has returned. A store that is opened for reading tells nothing.
//
// Threads: one at a time for `options`.
enum keyrack_code keyrack_options_set_listener(struct keyrack_options *options,
                                               keyrack_listener listener,
                                               void *context,
                                               struct keyrack_error **error);

// The name of an event, such as "flush_ended". It lives as long as the event. Empty for null.
//
// Threads: that of the listener.
const char *keyrack_event_name(const struct keyrack_event *event);

// Whether a field of an event has a number at `index`, which is then in `*number`: 0 for a field
// that is one number; counted from 0 in a list, as the numbers of tables are. `*number` is 0 if
// there is none.
//
// Threads: that of the listener.
int keyrack_event_number(const struct keyrack_event *event,
                         const char *field,
                         size_t index,
                         uint64_t *number);

// The text of a field of an event; null if it has none. It lives as long as the event.
//
// Threads: that of the listener.
const char *keyrack_event_text(const struct keyrack_event *event, const char *field);

// Opens the store in the directory `dir` for reading and writing, and makes it if there is none.
// `options` may be null. One process opens a directory for writing at a time, once. The caller
// closes `*store` with keyrack_close and frees it with keyrack_store_free; it is null on failure.
//
// Threads: any.
enum keyrack_code keyrack_open(const char *dir,
                               const struct keyrack_options *options,
                               struct keyrack_store **store,
                               struct keyrack_error **error);

// As keyrack_open, for reading, also beside a process that writes. It shows the store of this
// moment. Writes are an error.
//
// Threads: any.
enum keyrack_code keyrack_open_read_only(const char *dir,
                                         const struct keyrack_options *options,
                                         struct keyrack_store **store,
                                         struct keyrack_error **error);

// Closes a store, and says whether all that was acknowledged is safe. A call of another thread
// that runs meanwhile is done, or answers KEYRACK_CLOSED. So does one that waits for a key which
// another transaction has locked: it is woken. Closing again waits until the first close is done,
// and may tell of the same failure.
//
// Handles of the store stay valid until they are freed. Iterators that were made before go on to
// show their moment, but for those of transactions; every other call answers KEYRACK_CLOSED. The
// directory can be opened again when all handles of the store are freed.
//
// Threads: any at once.
enum keyrack_code keyrack_close(struct keyrack_store *store, struct keyrack_error **error);

// Frees the handle of a store, and closes the store if it is open, with nobody to be told of a
// failure. Its other handles may be freed before or later. Null is nothing.
//
// Threads: one, the last that uses `store`; others may use handles of key spaces and so on.
void keyrack_store_free(struct keyrack_store *store);

// Removes the store in a directory that nobody has open, and the directory if nothing else is in
// it. Nothing to do where there is none.
//
// Threads: any.
enum keyrack_code keyrack_destroy(const char *dir, struct keyrack_error **error);

// Makes a table of what is in memory. Not needed for safety: the log has it.
//
// Threads: any at once.
enum keyrack_code keyrack_flush(const struct keyrack_store *store, struct keyrack_error **error);

// Merges all tables, so that what was replaced or deleted takes no space. Takes as long as writing
// the whole store; others read and write meanwhile.
//
// Threads: any at once.
enum keyrack_code keyrack_compact(const struct keyrack_store *store, struct keyrack_error **error);

// Makes a store of this moment in a new directory of the same file system, mostly by hard links.
//
// Threads: any at once.
enum keyrack_code keyrack_checkpoint(const struct keyrack_store *store,
                                     const char *dir,
                                     struct keyrack_error **error);

// What a store says under the name of a property (docs/engines/flodb.md has the names), as a text
// in `*value`, which the caller frees with keyrack_free; null if the name is unknown.
//
// Threads: any at once.
enum keyrack_code keyrack_property(const struct keyrack_store *store,
                                   const char *name,
                                   char **value,
                                   struct keyrack_error **error);

// The counters of a store: rows of a name and a number. The caller frees `*list` with
// keyrack_list_free.
//
// Threads: any at once.
enum keyrack_code keyrack_statistics(const struct keyrack_store *store,
                                     struct keyrack_list **list,
                                     struct keyrack_error **error);

// The key space with this name, which is made if it is missing. In a plain store the only name is
// "", and its space is the store. The name is copied. The caller frees `*space` with
// keyrack_space_free; it is null on failure.
//
// Threads: any at once.
enum keyrack_code keyrack_space_open(const struct keyrack_store *store,
                                     const char *name,
                                     struct keyrack_space **space,
                                     struct keyrack_error **error);

// As keyrack_space_open, but one that is missing is not made: `*space` is null, and KEYRACK_OK.
//
// Threads: any at once.
enum keyrack_code keyrack_space_find(const struct keyrack_store *store,
                                     const char *name,
                                     struct keyrack_space **space,
                                     struct keyrack_error **error);

// Removes the key space with this name and all of its keys. `*dropped` is 1 if it was there, else
// 0; it may be null. Calls by handles of the space answer KEYRACK_USAGE from then on.
//
// Threads: any at once.
enum keyrack_code keyrack_space_drop(const struct keyrack_store *store,
                                     const char *name,
                                     int *dropped,
                                     struct keyrack_error **error);

// The names of the key spaces, in their order: the texts of the rows of `*list`. Of a plain store
// the empty name. The caller frees `*list` with keyrack_list_free.
//
// Threads: any at once.
enum keyrack_code keyrack_space_list(const struct keyrack_store *store,
                                     struct keyrack_list **list,
                                     struct keyrack_error **error);

// The name of a key space, which lives as long as the handle; null for null.
//
// Threads: any at once.
const char *keyrack_space_name(const struct keyrack_space *space);

// Frees the handle of a key space. The space and its keys stay. Null is nothing.
//
// Threads: one, the last that uses `space`.
void keyrack_space_free(struct keyrack_space *space);

// Stores a value under a key. `flags` is 0 or KEYRACK_SYNC. Key and value are copied, and may be
// any bytes, also none.
//
// Threads: any at once.
enum keyrack_code keyrack_put(const struct keyrack_space *space,
                              const void *key,
                              size_t key_len,
                              const void *value,
                              size_t value_len,
                              uint32_t flags,
                              struct keyrack_error **error);

// Removes a key, whether it is there or not. `flags` is 0 or KEYRACK_SYNC.
//
// Threads: any at once.
enum keyrack_code keyrack_delete(const struct keyrack_space *space,
                                 const void *key,
                                 size_t key_len,
                                 uint32_t flags,
                                 struct keyrack_error **error);

// Removes all keys from `low` on and before `high`, as one write. `flags` is 0 or KEYRACK_SYNC.
//
// Threads: any at once.
enum keyrack_code keyrack_delete_range(const struct keyrack_space *space,
                                       const void *low,
                                       size_t low_len,
                                       const void *high,
                                       size_t high_len,
                                       uint32_t flags,
                                       struct keyrack_error **error);

// The value of a key, and its length in `*value_len`, which may be null. The caller frees `*value`
// with keyrack_free. It is null if the key is not there, which is KEYRACK_OK, and on failure; an
// empty value is not null. `snapshot` is the moment to read from; null is now.
//
// Threads: any at once.
enum keyrack_code keyrack_get(const struct keyrack_space *space,
                              const struct keyrack_snapshot *snapshot,
                              const void *key,
                              size_t key_len,
                              char **value,
                              size_t *value_len,
                              struct keyrack_error **error);

// Whether a key is there: `*found` is 1 or 0. `snapshot` is the moment to read from; null is now.
//
// Threads: any at once.
enum keyrack_code keyrack_contains(const struct keyrack_space *space,
                                   const struct keyrack_snapshot *snapshot,
                                   const void *key,
                                   size_t key_len,
                                   int *found,
                                   struct keyrack_error **error);

// Replaces the value of a key if it is the expected one, as one step: `*swapped` is 1 then, else
// 0. A null pointer with the length 0 is no value: no key is expected, or the key is removed.
// `flags` is 0 or KEYRACK_SYNC.
//
// Threads: any at once.
enum keyrack_code keyrack_compare_and_swap(const struct keyrack_space *space,
                                           const void *key,
                                           size_t key_len,
                                           const void *expected,
                                           size_t expected_len,
                                           const void *value,
                                           size_t value_len,
                                           uint32_t flags,
                                           int *swapped,
                                           struct keyrack_error **error);

// Adds to the counter under a key, as one step: eight bytes, little-endian and signed; a missing
// key is 0, and any other value is KEYRACK_USAGE. `*before` gets what was there; it may be null.
// `flags` is 0 or KEYRACK_SYNC.
//
// Threads: any at once.
enum keyrack_code keyrack_fetch_and_add(const struct keyrack_space *space,
                                        const void *key,
                                        size_t key_len,
                                        int64_t delta,
                                        uint32_t flags,
                                        int64_t *before,
                                        struct keyrack_error **error);

// Makes an empty batch for the key spaces of a store. The caller frees `*batch` with
// keyrack_batch_free.
//
// Threads: any at once.
enum keyrack_code keyrack_batch_new(const struct keyrack_store *store,
                                    struct keyrack_batch **batch,
                                    struct keyrack_error **error);

// Adds a put. Key and value are copied.
//
// Threads: one at a time for `batch`, any at once for `space`.
enum keyrack_code keyrack_batch_put(struct keyrack_batch *batch,
                                    const struct keyrack_space *space,
                                    const void *key,
                                    size_t key_len,
                                    const void *value,
                                    size_t value_len,
                                    struct keyrack_error **error);

// Adds a removal of a key. The key is copied.
//
// Threads: one at a time for `batch`, any at once for `space`.
enum keyrack_code keyrack_batch_delete(struct keyrack_batch *batch,
                                       const struct keyrack_space *space,
                                       const void *key,
                                       size_t key_len,
                                       struct keyrack_error **error);

// Adds a removal of all keys from `low` on and before `high`. The keys are copied.
//
// Threads: one at a time for `batch`, any at once for `space`.
enum keyrack_code keyrack_batch_delete_range(struct keyrack_batch *batch,
                                             const struct keyrack_space *space,
                                             const void *low,
                                             size_t low_len,
                                             const void *high,
                                             size_t high_len,
                                             struct keyrack_error **error);

// Does the writes of a batch in their order, all or none, also for readers and after a crash. The
// batch keeps them. `flags` is 0 or KEYRACK_SYNC.
//
// Threads: one at a time for `batch`.
enum keyrack_code keyrack_batch_write(struct keyrack_batch *batch,
                                      uint32_t flags,
                                      struct keyrack_error **error);

// Takes all writes out of a batch. Null is nothing.
//
// Threads: one at a time for `batch`.
void keyrack_batch_clear(struct keyrack_batch *batch);

// The number of writes in a batch; 0 for null.
//
// Threads: one at a time for `batch`.
uint64_t keyrack_batch_count(const struct keyrack_batch *batch);

// Frees a batch; what was not written is not. Null is nothing.
//
// Threads: one, the last that uses `batch`.
void keyrack_batch_free(struct keyrack_batch *batch);

// Keeps this moment of all key spaces readable: what is replaced later takes space until the
// snapshot is freed. The caller frees `*snapshot` with keyrack_snapshot_free.
//
// Threads: any at once.
enum keyrack_code keyrack_snapshot_new(const struct keyrack_store *store,
                                       struct keyrack_snapshot **snapshot,
                                       struct keyrack_error **error);

// Gives up a moment. Iterators that show it go on. Null is nothing.
//
// Threads: one, the last that uses `snapshot`; a snapshot is read by any at once before.
void keyrack_snapshot_free(struct keyrack_snapshot *snapshot);

// Makes an iterator over the keys from `low` on and before `high`, which are copied; a null
// pointer with the length 0 is no bound. It stands nowhere at first. It shows the moment of
// `snapshot`, or if that is null this moment, whatever is written later. The caller frees
// `*iterator` with keyrack_iterator_free.
//
// Threads: any at once.
enum keyrack_code keyrack_iterator_new(const struct keyrack_space *space,
                                       const struct keyrack_snapshot *snapshot,
                                       const void *low,
                                       size_t low_len,
                                       const void *high,
                                       size_t high_len,
                                       struct keyrack_iterator **iterator,
                                       struct keyrack_error **error);

// As keyrack_iterator_new, over the keys that begin with `prefix`.
//
// Threads: any at once.
enum keyrack_code keyrack_iterator_new_prefix(const struct keyrack_space *space,
                                              const struct keyrack_snapshot *snapshot,
                                              const void *prefix,
                                              size_t prefix_len,
                                              struct keyrack_iterator **iterator,
                                              struct keyrack_error **error);

// Goes to the first key. A move that fails goes nowhere; the next one may succeed.
//
// Threads: one at a time for `iterator`.
enum keyrack_code keyrack_iterator_first(struct keyrack_iterator *iterator,
                                         struct keyrack_error **error);

// Goes to the last key.
//
// Threads: one at a time for `iterator`.
enum keyrack_code keyrack_iterator_last(struct keyrack_iterator *iterator,
                                        struct keyrack_error **error);

// Goes to the first key that is not before `target`.
//
// Threads: one at a time for `iterator`.
enum keyrack_code keyrack_iterator_seek(struct keyrack_iterator *iterator,
                                        const void *target,
                                        size_t target_len,
                                        struct keyrack_error **error);

// Goes to the last key that is not after `target`.
//
// Threads: one at a time for `iterator`.
enum keyrack_code keyrack_iterator_seek_back(struct keyrack_iterator *iterator,
                                             const void *target,
                                             size_t target_len,
                                             struct keyrack_error **error);

// Goes to the next key; nowhere after the last one. Nothing happens nowhere.
//
// Threads: one at a time for `iterator`.
enum keyrack_code keyrack_iterator_next(struct keyrack_iterator *iterator,
                                        struct keyrack_error **error);

// Goes to the key before; nowhere before the first one. Nothing happens nowhere.
//
// Threads: one at a time for `iterator`.
enum keyrack_code keyrack_iterator_prev(struct keyrack_iterator *iterator,
                                        struct keyrack_error **error);

// 1 if an iterator stands on a key, else 0.
//
// Threads: one at a time for `iterator`.
int keyrack_iterator_valid(const struct keyrack_iterator *iterator);

// The key here, and its length in `*len`; null nowhere. It lives until the iterator moves or is
// freed, and does not end with a zero.
//
// Threads: one at a time for `iterator`.
const char *keyrack_iterator_key(const struct keyrack_iterator *iterator, size_t *len);

// The value here, and its length in `*len`; null nowhere. It lives until the iterator moves or is
// freed, and does not end with a zero.
//
// Threads: one at a time for `iterator`.
const char *keyrack_iterator_value(const struct keyrack_iterator *iterator, size_t *len);

// Frees an iterator. Null is nothing.
//
// Threads: one, the last that uses `iterator`.
void keyrack_iterator_free(struct keyrack_iterator *iterator);

// Begins a transaction at this moment. `flags` has KEYRACK_SYNC for its commit, and
// KEYRACK_SNAPSHOT_ISOLATION; without the latter it is serializable. The caller frees
// `*transaction` with keyrack_transaction_free.
//
// Threads: any at once. A transaction and its iterators, all together, are for one thread at a
// time.
enum keyrack_code keyrack_transaction_begin(const struct keyrack_store *store,
                                            uint32_t flags,
                                            struct keyrack_transaction **transaction,
                                            struct keyrack_error **error);

// The value of a key as the transaction sees it, as from keyrack_get: the caller frees `*value`
// with keyrack_free, and it is null if the key is not there.
//
// Threads: one at a time for `transaction`.
enum keyrack_code keyrack_transaction_get(struct keyrack_transaction *transaction,
                                          const struct keyrack_space *space,
                                          const void *key,
                                          size_t key_len,
                                          char **value,
                                          size_t *value_len,
                                          struct keyrack_error **error);

// As keyrack_transaction_get, and locks the key against other transactions that ask by this call,
// until the transaction ends: it waits for the one that has it. KEYRACK_DEADLOCK if that one waits
// for this one. KEYRACK_CLOSED if the store is closed, also while it waits. One thread must not
// ask for a key of two transactions of its own: it would wait forever.
//
// Threads: one at a time for `transaction`.
enum keyrack_code keyrack_transaction_get_for_update(struct keyrack_transaction *transaction,
                                                     const struct keyrack_space *space,
                                                     const void *key,
                                                     size_t key_len,
                                                     char **value,
                                                     size_t *value_len,
                                                     struct keyrack_error **error);

// Stores a value under a key when the transaction commits. Key and value are copied.
//
// Threads: one at a time for `transaction`.
enum keyrack_code keyrack_transaction_put(struct keyrack_transaction *transaction,
                                          const struct keyrack_space *space,
                                          const void *key,
                                          size_t key_len,
                                          const void *value,
                                          size_t value_len,
                                          struct keyrack_error **error);

// Removes a key when the transaction commits. The key is copied.
//
// Threads: one at a time for `transaction`.
enum keyrack_code keyrack_transaction_delete(struct keyrack_transaction *transaction,
                                             const struct keyrack_space *space,
                                             const void *key,
                                             size_t key_len,
                                             struct keyrack_error **error);

// Removes all keys from `low` on and before `high` when the transaction commits. Both are copied.
//
// Threads: one at a time for `transaction`.
enum keyrack_code keyrack_transaction_delete_range(struct keyrack_transaction *transaction,
                                                   const struct keyrack_space *space,
                                                   const void *low,
                                                   size_t low_len,
                                                   const void *high,
                                                   size_t high_len,
                                                   struct keyrack_error **error);

// Makes an iterator over the keys from `low` on and before `high`, as keyrack_iterator_new does,
// that shows what the transaction sees, with the writes that it has made before. In a serializable
// transaction, what it passes counts as read. The caller frees `*iterator` with
// keyrack_iterator_free before the transaction commits or is rolled back.
//
// Threads: one at a time for `transaction` and its iterators together.
enum keyrack_code keyrack_transaction_iterator(struct keyrack_transaction *transaction,
                                               const struct keyrack_space *space,
                                               const void *low,
                                               size_t low_len,
                                               const void *high,
                                               size_t high_len,
                                               struct keyrack_iterator **iterator,
                                               struct keyrack_error **error);

// As keyrack_transaction_iterator, over the keys that begin with `prefix`.
//
// Threads: one at a time for `transaction` and its iterators together.
enum keyrack_code keyrack_transaction_iterator_prefix(struct keyrack_transaction *transaction,
                                                      const struct keyrack_space *space,
                                                      const void *prefix,
                                                      size_t prefix_len,
                                                      struct keyrack_iterator **iterator,
                                                      struct keyrack_error **error);

// Marks this point of a transaction. Points nest.
//
// Threads: one at a time for `transaction`.
enum keyrack_code keyrack_transaction_save_point(struct keyrack_transaction *transaction,
                                                 struct keyrack_error **error);

// Takes back the writes since the last point, and the point. KEYRACK_USAGE if there is none.
//
// Threads: one at a time for `transaction`.
enum keyrack_code keyrack_transaction_roll_back_to_save_point(struct keyrack_transaction *transaction,
                                                              struct keyrack_error **error);

// Forgets the last point, and keeps the writes since. KEYRACK_USAGE if there is none.
//
// Threads: one at a time for `transaction`.
enum keyrack_code keyrack_transaction_release_save_point(struct keyrack_transaction *transaction,
                                                         struct keyrack_error **error);

// Writes what a transaction has written, all or none, and ends it. KEYRACK_CONFLICT if somebody
// else has changed what it depends on: nothing is written, and the error has the key. It has ended
// then, too; begin another one. KEYRACK_USAGE while iterators of it live: then it goes on.
//
// Threads: one at a time for `transaction`.
enum keyrack_code keyrack_transaction_commit(struct keyrack_transaction *transaction,
                                             struct keyrack_error **error);

// Ends a transaction, and writes nothing. KEYRACK_USAGE while iterators of it live: then it goes
// on.
//
// Threads: one at a time for `transaction`.
enum keyrack_code keyrack_transaction_roll_back(struct keyrack_transaction *transaction,
                                                struct keyrack_error **error);

// Frees a transaction, which writes nothing if it has not committed. If iterators of it live, they
// go on, and its locks are held until the last of them is freed. Null is nothing.
//
// Threads: one, the last that uses `transaction`.
void keyrack_transaction_free(struct keyrack_transaction *transaction);

// Saves this moment of a store in the directory `target`, which is made if it is missing. Every
// backup can be restored alone, and copies only what no other one has. Others read and write
// meanwhile. `*id` gets the name of the backup, which the caller frees with keyrack_free; `id` may
// be null.
//
// Threads: any at once; a second backup to the same target answers KEYRACK_LOCKED.
enum keyrack_code keyrack_backup(const struct keyrack_store *store,
                                 const char *target,
                                 char **id,
                                 struct keyrack_error **error);

// The backups in the directory `target`, oldest first: rows of a name and of the bytes of the
// store, or -1 if the backup cannot be read. The caller frees `*list` with keyrack_list_free.
//
// Threads: any at once.
enum keyrack_code keyrack_backup_list(const char *target,
                                      struct keyrack_list **list,
                                      struct keyrack_error **error);

// Reads every byte of the backup `id`, or of all backups if that is null. KEYRACK_CORRUPTION, with
// all that is wrong in the message, if something cannot be restored.
//
// Threads: any at once.
enum keyrack_code keyrack_backup_verify(const char *target,
                                        const char *id,
                                        struct keyrack_error **error);

// Makes the store of the backup `id`, or of the newest if that is null, in the directory `dir`,
// which is empty or not there. Afterwards the whole store is there, or nothing of it.
//
// Threads: any at once.
enum keyrack_code keyrack_backup_restore(const char *target,
                                         const char *id,
                                         const char *dir,
                                         struct keyrack_error **error);

// Deletes all backups but the newest `count`, at least one, and what they alone need.
//
// Threads: any at once; KEYRACK_LOCKED beside a backup to the same target.
enum keyrack_code keyrack_backup_keep_newest(const char *target,
                                             size_t count,
                                             struct keyrack_error **error);

// The number of rows; 0 for null.
//
// Threads: any, until the list is freed.
size_t keyrack_list_count(const struct keyrack_list *list);

// The text of a row, from 0 on, which ends with a zero; null if there is no such row. It lives as
// long as the list.
//
// Threads: any, until the list is freed.
const char *keyrack_list_text(const struct keyrack_list *list, size_t row);

// The number of a row, from 0 on; 0 if there is no such row.
//
// Threads: any, until the list is freed.
double keyrack_list_number(const struct keyrack_list *list, size_t row);

// Frees a list and its texts. Null is nothing.
//
// Threads: one, the last that uses the list.
void keyrack_list_free(struct keyrack_list *list);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* KEYRACK_H */
