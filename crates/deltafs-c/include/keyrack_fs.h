/*
 * Name spaces of files, for C. See docs/fs-c.md for how to build with it.
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

#ifdef __cplusplus
extern "C" {
#endif

/* An open log. One process has it open for writing at a time. */
typedef struct keyrack_fs keyrack_fs;

/* A listing under way. */
typedef struct keyrack_fs_dir keyrack_fs_dir;

/* Flags of keyrack_fs_open. */
#define KEYRACK_FS_CREATE 1u    /* make the log if there is none */
#define KEYRACK_FS_READ_ONLY 2u /* change nothing; others may write meanwhile, unseen */

/* Flags of keyrack_fs_create and keyrack_fs_rename. */
#define KEYRACK_FS_EXCLUSIVE 1u /* fail with EEXIST if the name is taken */

/* Type bits of a mode, as in <sys/stat.h>. */
#define KEYRACK_FS_TYPE_MASK 0170000u
#define KEYRACK_FS_FILE 0100000u
#define KEYRACK_FS_DIRECTORY 0040000u
#define KEYRACK_FS_SYMLINK 0120000u

/* A name with its zero, and a path or a target with its zero, at most. */
#define KEYRACK_FS_NAME_SIZE 256
#define KEYRACK_FS_PATH_SIZE 4097

/* Facts. Times are nanoseconds since 1970. */
typedef struct keyrack_fs_stat {
    uint64_t inode_high; /* the number of the file, upper half */
    uint64_t inode_low;  /* lower half */
    uint64_t size;
    uint64_t nlink;
    uint64_t mtime_ns;
    uint64_t ctime_ns;
    uint32_t mode; /* type and permissions */
    uint32_t uid;
    uint32_t gid;
    uint32_t has_inline_data; /* 1 if the bytes of a file are in its record */
} keyrack_fs_stat;

/* An entry of a listing. */
typedef struct keyrack_fs_entry {
    keyrack_fs_stat stat;
    uint32_t name_len;               /* without the zero */
    char name[KEYRACK_FS_NAME_SIZE]; /* with a zero */
} keyrack_fs_entry;

/* The version of this interface: 1. */
uint32_t keyrack_fs_version(void);

/* What went wrong in the last call of this thread that failed. Valid until the next that fails. */
const char *keyrack_fs_message(void);

/* Opens the log in the directory dir for the user uid with the group gid; 0, 0 may do everything. */
int keyrack_fs_open(const char *dir, uint32_t flags, uint32_t uid, uint32_t gid, keyrack_fs **fs);

/* Ends the use and frees fs, whatever is returned. Listings have to be closed before. */
int keyrack_fs_close(keyrack_fs *fs);

/* Makes everything that was done durable against power loss. */
int keyrack_fs_sync(const keyrack_fs *fs);

int keyrack_fs_mkdir(const keyrack_fs *fs, const char *path, uint32_t mode);
int keyrack_fs_create(const keyrack_fs *fs, const char *path, uint32_t mode, uint32_t flags);
int keyrack_fs_symlink(const keyrack_fs *fs, const char *target, const char *path);
int keyrack_fs_unlink(const keyrack_fs *fs, const char *path);
int keyrack_fs_rmdir(const keyrack_fs *fs, const char *path);
int keyrack_fs_rename(const keyrack_fs *fs, const char *from, const char *to, uint32_t flags);
int keyrack_fs_chmod(const keyrack_fs *fs, const char *path, uint32_t mode);
int keyrack_fs_chown(const keyrack_fs *fs, const char *path, uint32_t uid, uint32_t gid);
int keyrack_fs_utime(const keyrack_fs *fs, const char *path, uint64_t mtime_ns);

/* Follows links; lstat does not. */
int keyrack_fs_stat_path(const keyrack_fs *fs, const char *path, keyrack_fs_stat *stat);
int keyrack_fs_lstat_path(const keyrack_fs *fs, const char *path, keyrack_fs_stat *stat);

/* The target of a link with a zero, cut to size. Returns its whole length without the zero. */
int64_t keyrack_fs_readlink(const keyrack_fs *fs, const char *path, char *target, size_t size);

/* Bytes of a file, of any size. Both return how many. */
int64_t keyrack_fs_read(const keyrack_fs *fs, const char *path, uint64_t offset, void *bytes,
                        size_t count);
int64_t keyrack_fs_write(const keyrack_fs *fs, const char *path, uint64_t offset,
                         const void *bytes, size_t count);

/*
 * Lists a directory in the order of names, from behind the name `after`, or from the beginning if
 * that is NULL. A listing can so be resumed at any name, later, by another process.
 */
int keyrack_fs_opendir(const keyrack_fs *fs, const char *path, const char *after,
                       keyrack_fs_dir **dir);

/* The next entry: 1, or 0 at the end. */
int keyrack_fs_readdir(keyrack_fs_dir *dir, keyrack_fs_entry *entry);

void keyrack_fs_closedir(keyrack_fs_dir *dir);

#ifdef __cplusplus
}
#endif

#endif
