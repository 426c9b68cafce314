/* Uses every call of keyrack_fs.h on the log in argv[1], and says what was not as it should be. */
#include "keyrack_fs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(keyrack_fs_stat) == 64, "facts");
_Static_assert(sizeof(keyrack_fs_entry) == 328, "an entry");

#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) {                                                   \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition,        \
                    keyrack_fs_message());                                    \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

int main(int argc, char **argv) {
    keyrack_fs *fs = NULL;
    keyrack_fs_dir *dir = NULL;
    keyrack_fs_stat stat;
    keyrack_fs_entry entry;
    char bytes[64];
    char name[32];
    int i;

    CHECK(argc == 2);
    CHECK(keyrack_fs_version() == 1);

    /* What is wrong has a number and a message. */
    CHECK(keyrack_fs_open(argv[1], 0, 0, 0, &fs) < 0);
    CHECK(strlen(keyrack_fs_message()) > 0);
    CHECK(keyrack_fs_open(NULL, 0, 0, 0, &fs) == -EINVAL);
    CHECK(keyrack_fs_open(argv[1], 0x80, 0, 0, &fs) == -EINVAL);
    CHECK(keyrack_fs_open(argv[1], KEYRACK_FS_CREATE, 0, 0, NULL) == -EINVAL);
    CHECK(keyrack_fs_mkdir(NULL, "/a", 0755) == -EINVAL);

    CHECK(keyrack_fs_open(argv[1], KEYRACK_FS_CREATE, 0, 0, &fs) == 0);
    CHECK(keyrack_fs_mkdir(fs, "/a", 0750) == 0);
    CHECK(keyrack_fs_mkdir(fs, "/a", 0750) == -EEXIST);
    CHECK(strstr(keyrack_fs_message(), "/a") != NULL);
    CHECK(keyrack_fs_mkdir(fs, NULL, 0750) == -EINVAL);
    CHECK(keyrack_fs_mkdir(fs, "/no/b", 0750) == -ENOENT);
    CHECK(keyrack_fs_create(fs, "/a/f", 0640, KEYRACK_FS_EXCLUSIVE) == 0);
    CHECK(keyrack_fs_create(fs, "/a/f", 0640, KEYRACK_FS_EXCLUSIVE) == -EEXIST);
    CHECK(keyrack_fs_create(fs, "/a/f", 0640, 0) == 0);
    CHECK(keyrack_fs_write(fs, "/a/f", 0, "hello world", 11) == 11);
    CHECK(keyrack_fs_write(fs, "/a/f", UINT64_MAX, "x", 1) == -EFBIG);
    CHECK(keyrack_fs_create(fs, "/a/large", 0640, KEYRACK_FS_EXCLUSIVE) == 0);
    CHECK(keyrack_fs_write(fs, "/a/large", 4000, "x", 1) == 1);
    CHECK(keyrack_fs_read(fs, "/a/large", 3999, bytes, sizeof bytes) == 2);
    CHECK(bytes[0] == 0 && bytes[1] == 'x');
    CHECK(keyrack_fs_unlink(fs, "/a/large") == 0);
    CHECK(keyrack_fs_write(fs, "/a/f", 0, NULL, 1) == -EINVAL);
    memset(bytes, 0, sizeof bytes);
    CHECK(keyrack_fs_read(fs, "/a/f", 6, bytes, sizeof bytes) == 5);
    CHECK(strcmp(bytes, "world") == 0);
    CHECK(keyrack_fs_read(fs, "/a", 0, bytes, sizeof bytes) == -EISDIR);
    CHECK(keyrack_fs_symlink(fs, "a/f", "/l") == 0);
    CHECK(keyrack_fs_readlink(fs, "/l", bytes, 3) == 3);
    CHECK(strcmp(bytes, "a/") == 0);
    CHECK(keyrack_fs_readlink(fs, "/l", bytes, sizeof bytes) == 3);
    CHECK(strcmp(bytes, "a/f") == 0);

    CHECK(keyrack_fs_stat_path(fs, "/l", &stat) == 0);
    CHECK((stat.mode & KEYRACK_FS_TYPE_MASK) == KEYRACK_FS_FILE);
    CHECK((stat.mode & 07777) == 0640 && stat.size == 11 && stat.nlink == 1);
    CHECK(stat.has_inline_data == 1 && stat.mtime_ns > 0);
    CHECK(keyrack_fs_lstat_path(fs, "/l", &stat) == 0);
    CHECK((stat.mode & KEYRACK_FS_TYPE_MASK) == KEYRACK_FS_SYMLINK && stat.size == 3);
    CHECK(keyrack_fs_stat_path(fs, "/a", &stat) == 0);
    CHECK((stat.mode & KEYRACK_FS_TYPE_MASK) == KEYRACK_FS_DIRECTORY && stat.nlink == 2);
    CHECK(keyrack_fs_stat_path(fs, "/a", NULL) == -EINVAL);

    CHECK(keyrack_fs_chmod(fs, "/a/f", 0600) == 0);
    CHECK(keyrack_fs_chown(fs, "/a/f", 12, 34) == 0);
    CHECK(keyrack_fs_utime(fs, "/a/f", 1700000000000000005u) == 0);
    CHECK(keyrack_fs_stat_path(fs, "/a/f", &stat) == 0);
    CHECK((stat.mode & 07777) == 0600 && stat.uid == 12 && stat.gid == 34);
    CHECK(stat.mtime_ns == 1700000000000000005u);

    CHECK(keyrack_fs_rename(fs, "/a/f", "/l", KEYRACK_FS_EXCLUSIVE) == -EEXIST);
    CHECK(keyrack_fs_rename(fs, "/a/f", "/g", 0) == 0);
    CHECK(keyrack_fs_unlink(fs, "/a") == -EISDIR);
    CHECK(keyrack_fs_rmdir(fs, "/g") == -ENOTDIR);

    /* More than a page, resumed at a name. */
    for (i = 0; i < 2500; i++) {
        snprintf(name, sizeof name, "/a/%05d", i);
        CHECK(keyrack_fs_create(fs, name, 0644, KEYRACK_FS_EXCLUSIVE) == 0);
    }
    CHECK(keyrack_fs_opendir(fs, "/a", NULL, &dir) == 0);
    for (i = 0; keyrack_fs_readdir(dir, &entry) == 1; i++) {
        snprintf(name, sizeof name, "%05d", i);
        CHECK(strcmp(entry.name, name) == 0 && entry.name_len == 5);
        CHECK((entry.stat.mode & KEYRACK_FS_TYPE_MASK) == KEYRACK_FS_FILE);
    }
    CHECK(i == 2500);
    CHECK(keyrack_fs_readdir(dir, &entry) == 0);
    keyrack_fs_closedir(dir);
    CHECK(keyrack_fs_opendir(fs, "/a", "02497", &dir) == 0);
    CHECK(keyrack_fs_readdir(dir, &entry) == 1 && strcmp(entry.name, "02498") == 0);
    CHECK(keyrack_fs_readdir(NULL, &entry) == -EINVAL);
    keyrack_fs_closedir(dir);
    CHECK(keyrack_fs_opendir(fs, "/g", NULL, &dir) == -ENOTDIR);
    CHECK(keyrack_fs_rmdir(fs, "/a") == -ENOTEMPTY);
    CHECK(keyrack_fs_unlink(fs, "/l") == 0);
    CHECK(keyrack_fs_sync(fs) == 0);
    CHECK(keyrack_fs_close(fs) == 0);
    CHECK(keyrack_fs_close(NULL) == 0);

    /* As somebody else, and read-only. */
    CHECK(keyrack_fs_open(argv[1], 0, 1000, 1000, &fs) == 0);
    CHECK(keyrack_fs_create(fs, "/mine", 0644, 0) == -EACCES);
    CHECK(keyrack_fs_read(fs, "/g", 0, bytes, sizeof bytes) == -EACCES);
    CHECK(keyrack_fs_close(fs) == 0);
    CHECK(keyrack_fs_open(argv[1], KEYRACK_FS_READ_ONLY, 0, 0, &fs) == 0);
    CHECK(keyrack_fs_mkdir(fs, "/b", 0755) == -EROFS);
    CHECK(keyrack_fs_stat_path(fs, "/a/00000", &stat) == 0);
    CHECK(keyrack_fs_close(fs) == 0);
    puts("done");
    return 0;
}
