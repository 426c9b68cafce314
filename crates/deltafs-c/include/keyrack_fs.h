/*
 * Name spaces of files, for C. See docs/fs-c.md for how to build with it.
 *
 * Made by cbindgen from crates/deltafs-c: change the sources, not this file.
 *
 * Every call returns 0 or more when it succeeded and a negated errno value when it did not;
 * keyrack_fs_message() then has a line for a person. Paths are bytes that begin with a slash and
 * end with a zero. Any number of threads may use one keyrack_fs at once; a keyrack_fs_dir belongs
 * to one thread at a time.
 */

#ifndef KEYRACK_FS_H
#define KEYRACK_FS_H

#include <stddef.h>
#include <stdint.h>

// For `keyrack_fs_open`: make the log if there is none.
#define KEYRACK_FS_CREATE 1

// For `keyrack_fs_open`: change nothing; others may write meanwhile, unseen.
#define KEYRACK_FS_READ_ONLY 2

// For `keyrack_fs_create` and `keyrack_fs_rename`: fail with EEXIST if the name is taken.
#define KEYRACK_FS_EXCLUSIVE 1

// The bits of a mode that say what an entry is, as in `<sys/stat.h>`: octal 170000.
#define KEYRACK_FS_TYPE_MASK 61440

// A file: octal 100000.
#define KEYRACK_FS_FILE 32768

// A directory: octal 040000.
#define KEYRACK_FS_DIRECTORY 16384

// A symbolic link: octal 120000.
#define KEYRACK_FS_SYMLINK 40960

// Bytes of a name with its zero, at most.
#define KEYRACK_FS_NAME_SIZE 256

// Bytes of a path, or of the target of a link, with its zero, at most.
#define KEYRACK_FS_PATH_SIZE 4097

// An open name space: a log, which one process has open for writing at a time, or servers.
typedef struct keyrack_fs keyrack_fs;

// A listing under way. It belongs to one thread at a time.
typedef struct keyrack_fs_dir keyrack_fs_dir;

// Facts. Times are nanoseconds since 1970.
typedef struct keyrack_fs_stat {
    // The number of the entry, the upper half.
    uint64_t inode_high;
    // The lower half.
    uint64_t inode_low;
    // Bytes of a file, or of the target of a link.
    uint64_t size;
    // Names; of a directory 2 and its directories.
    uint64_t nlink;
    // When the bytes, or the entries, last changed.
    uint64_t mtime_ns;
    // When anything last changed.
    uint64_t ctime_ns;
    // Type and permissions.
    uint32_t mode;
    // The owner.
    uint32_t uid;
    // The group.
    uint32_t gid;
    // 1 if the bytes of a file are in its record.
    uint32_t has_inline_data;
} keyrack_fs_stat;

// An entry of a listing.
typedef struct keyrack_fs_entry {
    // Its facts.
    struct keyrack_fs_stat stat;
    // Bytes of its name, without the zero.
    uint32_t name_len;
    // Its name, with a zero.
    char name[KEYRACK_FS_NAME_SIZE];
} keyrack_fs_entry;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// What went wrong in the last call of this thread that failed. Valid until the next that fails.
const char *keyrack_fs_message(void);

// The version of this interface: 2.
uint32_t keyrack_fs_version(void);

// Opens the log in the directory `dir` for the user `uid` with the group `gid`; 0, 0 may do
// everything.
int keyrack_fs_open(const char *dir,
                    uint32_t flags,
                    uint32_t uid,
                    uint32_t gid,
                    struct keyrack_fs **fs);

// Connects to the servers of a name space for the user `uid` with the group `gid`. `server` is the
// address of the first, such as `10.0.0.1:10101` or `unix:/run/fs.0.sock`, which names the others.
// `token` is what the servers ask for, or null. Calls of several threads wait for each other; a
// program connects several times to have several calls under way.
int keyrack_fs_connect(const char *server,
                       const char *token,
                       uint32_t uid,
                       uint32_t gid,
                       struct keyrack_fs **fs);

// Ends the use of a name space and frees `fs`, whatever is returned. Listings have to be closed
// before.
int keyrack_fs_close(struct keyrack_fs *fs);

// Makes everything that was done durable against power loss, on all servers if there are some.
int keyrack_fs_sync(const struct keyrack_fs *fs);

// Makes a directory.
int keyrack_fs_mkdir(const struct keyrack_fs *fs, const char *path, uint32_t mode);

// Makes an empty file. One that is there is taken as it is, or is EEXIST with
// `KEYRACK_FS_EXCLUSIVE`.
int keyrack_fs_create(const struct keyrack_fs *fs, const char *path, uint32_t mode, uint32_t flags);

// Makes a symbolic link to `target` at `path`.
int keyrack_fs_symlink(const struct keyrack_fs *fs, const char *target, const char *path);

// Removes a file or a link.
int keyrack_fs_unlink(const struct keyrack_fs *fs, const char *path);

// Removes an empty directory; of another it is ENOTEMPTY.
int keyrack_fs_rmdir(const struct keyrack_fs *fs, const char *path);

// Gives an entry another name. What has that name is replaced, or is EEXIST with
// `KEYRACK_FS_EXCLUSIVE`.
int keyrack_fs_rename(const struct keyrack_fs *fs,
                      const char *from,
                      const char *to,
                      uint32_t flags);

// Sets the permissions of what a path names; links are followed.
int keyrack_fs_chmod(const struct keyrack_fs *fs, const char *path, uint32_t mode);

// Sets owner and group; links are followed.
int keyrack_fs_chown(const struct keyrack_fs *fs, const char *path, uint32_t uid, uint32_t gid);

// Sets the modification time, nanoseconds since 1970; links are followed.
int keyrack_fs_utime(const struct keyrack_fs *fs, const char *path, uint64_t mtime_ns);

// Facts of what a path names; links are followed.
int keyrack_fs_stat_path(const struct keyrack_fs *fs,
                         const char *path,
                         struct keyrack_fs_stat *stat);

// Facts of what a path names; of a link its own.
int keyrack_fs_lstat_path(const struct keyrack_fs *fs,
                          const char *path,
                          struct keyrack_fs_stat *stat);

// Writes the target of a link with a zero to `target`, cut to `size` bytes. Returns its whole
// length without the zero.
int64_t keyrack_fs_readlink(const struct keyrack_fs *fs,
                            const char *path,
                            char *target,
                            size_t size);

// Reads up to `count` bytes of a file, of any size, from `offset` on. Returns how many came.
int64_t keyrack_fs_read(const struct keyrack_fs *fs,
                        const char *path,
                        uint64_t offset,
                        void *to,
                        size_t count);

// Writes `count` bytes into a file, which grows as far as it has to. Returns how many.
int64_t keyrack_fs_write(const struct keyrack_fs *fs,
                         const char *path,
                         uint64_t offset,
                         const void *from,
                         size_t count);

// Cuts a file to `size` bytes, or extends it with zeros; links are followed.
int keyrack_fs_truncate(const struct keyrack_fs *fs, const char *path, uint64_t size);

// Begins a listing of a directory in the order of names, from behind the name `after`, or from the
// beginning if that is null. So a listing can be resumed at any name, later, by another process.
int keyrack_fs_opendir(const struct keyrack_fs *fs,
                       const char *path,
                       const char *after,
                       struct keyrack_fs_dir **dir);

// The next entry of a listing: 1, or 0 at the end.
int keyrack_fs_readdir(struct keyrack_fs_dir *dir, struct keyrack_fs_entry *entry);

// Ends a listing.
void keyrack_fs_closedir(struct keyrack_fs_dir *dir);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* KEYRACK_FS_H */
