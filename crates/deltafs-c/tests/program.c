/* Uses every call of keyrack_fs.h, first on the log in argv[1], then on the servers at argv[2], which
 * ask for the token argv[3]. Says what was not as it should be. */
#include "keyrack_fs.h"

#include <errno.h>
#include <pthread.h>
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

/* What a name space does for user 0. */
static void use_as_root(keyrack_fs *fs) {
    keyrack_fs_dir *dir = NULL;
    keyrack_fs_stat stat;
    keyrack_fs_entry entry;
    char bytes[64];
    char name[32];
    int i;

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

    /* Links are followed at the end of a path, and at the end of a link. */
    CHECK(keyrack_fs_create(fs, "/a/t", 0644, KEYRACK_FS_EXCLUSIVE) == 0);
    CHECK(keyrack_fs_symlink(fs, "/a/t", "/a/link") == 0);
    CHECK(keyrack_fs_symlink(fs, "./link", "/a/link2") == 0);
    CHECK(keyrack_fs_create(fs, "/a/link2", 0644, KEYRACK_FS_EXCLUSIVE) == -EEXIST);
    CHECK(keyrack_fs_create(fs, "/a/link2", 0644, 0) == 0);
    CHECK(keyrack_fs_write(fs, "/a/link2", 0, "0123456789", 10) == 10);
    CHECK(keyrack_fs_read(fs, "/a/link2", 8, bytes, sizeof bytes) == 2);
    CHECK(keyrack_fs_chmod(fs, "/a/link2", 0604) == 0);
    CHECK(keyrack_fs_lstat_path(fs, "/a/t", &stat) == 0);
    CHECK((stat.mode & 07777) == 0604 && stat.size == 10);
    CHECK(keyrack_fs_symlink(fs, "loop", "/a/loop") == 0);
    CHECK(keyrack_fs_read(fs, "/a/loop", 0, bytes, sizeof bytes) == -ELOOP);
    CHECK(keyrack_fs_stat_path(fs, "/a/loop", &stat) == -ELOOP);

    /* Shorter and longer, in the record and out of it. */
    CHECK(keyrack_fs_truncate(fs, "/a/link2", 4) == 0);
    CHECK(keyrack_fs_read(fs, "/a/t", 0, bytes, sizeof bytes) == 4);
    CHECK(memcmp(bytes, "0123", 4) == 0);
    CHECK(keyrack_fs_truncate(fs, "/a/t", 6) == 0);
    CHECK(keyrack_fs_read(fs, "/a/t", 0, bytes, sizeof bytes) == 6);
    CHECK(memcmp(bytes, "0123\0\0", 6) == 0);
    CHECK(keyrack_fs_truncate(fs, "/a/t", 10000) == 0);
    CHECK(keyrack_fs_stat_path(fs, "/a/t", &stat) == 0 && stat.size == 10000);
    CHECK(keyrack_fs_read(fs, "/a/t", 9998, bytes, sizeof bytes) == 2);
    CHECK(bytes[0] == 0 && bytes[1] == 0);
    CHECK(keyrack_fs_truncate(fs, "/a/t", 0) == 0);
    CHECK(keyrack_fs_read(fs, "/a/t", 0, bytes, sizeof bytes) == 0);
    CHECK(keyrack_fs_truncate(fs, "/a/t", 20000) == 0);
    CHECK(keyrack_fs_read(fs, "/a/t", 19990, bytes, sizeof bytes) == 10);
    CHECK(bytes[9] == 0);
    CHECK(keyrack_fs_truncate(fs, "/a", 0) == -EISDIR);
    CHECK(keyrack_fs_truncate(fs, "/a/none", 20000) == -ENOENT);
    CHECK(keyrack_fs_sync(fs) == 0);
}

enum { THREADS = 4, FILES = 100 };

typedef struct {
    keyrack_fs *fs;
    int number;
} worker;

static void *make_and_read(void *given) {
    const worker *own = given;
    char path[32];
    char found[32];
    int i;

    for (i = 0; i < FILES; i++) {
        int length = snprintf(path, sizeof path, "/t/%d-%d", own->number, i);

        CHECK(keyrack_fs_create(own->fs, path, 0644, KEYRACK_FS_EXCLUSIVE) == 0);
        CHECK(keyrack_fs_write(own->fs, path, 0, path, (size_t)length) == length);
        CHECK(keyrack_fs_read(own->fs, path, 0, found, sizeof found) == length);
        CHECK(memcmp(found, path, (size_t)length) == 0);
        /* The message is that of this thread's last failure, whatever the others do. */
        CHECK(keyrack_fs_mkdir(own->fs, path, 0755) == -EEXIST);
        CHECK(strncmp(keyrack_fs_message(), path, (size_t)length) == 0);
    }
    return NULL;
}

/* Several threads use one name space. */
static void use_with_threads(keyrack_fs *fs) {
    pthread_t threads[THREADS];
    worker workers[THREADS];
    keyrack_fs_dir *dir = NULL;
    keyrack_fs_entry entry;
    int i;

    CHECK(keyrack_fs_mkdir(fs, "/t", 0755) == 0);
    for (i = 0; i < THREADS; i++) {
        workers[i] = (worker){fs, i};
        CHECK(pthread_create(&threads[i], NULL, make_and_read, &workers[i]) == 0);
    }
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(keyrack_fs_opendir(fs, "/t", NULL, &dir) == 0);
    for (i = 0; keyrack_fs_readdir(dir, &entry) == 1; i++)
        CHECK(entry.stat.size == strlen(entry.name) + 3);
    CHECK(i == THREADS * FILES);
    keyrack_fs_closedir(dir);
}

/* As a user who may write nothing here. */
static void use_as_another(keyrack_fs *fs) {
    char bytes[8];

    CHECK(keyrack_fs_create(fs, "/mine", 0644, 0) == -EACCES);
    CHECK(keyrack_fs_read(fs, "/g", 0, bytes, sizeof bytes) == -EACCES);
}

static void use_log(const char *path) {
    keyrack_fs *fs = NULL;
    keyrack_fs_stat stat;

    CHECK(keyrack_fs_open(path, 0, 0, 0, &fs) < 0);
    CHECK(strlen(keyrack_fs_message()) > 0);
    CHECK(keyrack_fs_open(NULL, 0, 0, 0, &fs) == -EINVAL);
    CHECK(keyrack_fs_open(path, 0x80, 0, 0, &fs) == -EINVAL);
    CHECK(keyrack_fs_open(path, KEYRACK_FS_CREATE, 0, 0, NULL) == -EINVAL);
    CHECK(keyrack_fs_open(path, KEYRACK_FS_CREATE, 0, 0, &fs) == 0);
    use_as_root(fs);
    use_with_threads(fs);
    CHECK(keyrack_fs_close(fs) == 0);

    CHECK(keyrack_fs_open(path, 0, 1000, 1000, &fs) == 0);
    use_as_another(fs);
    CHECK(keyrack_fs_close(fs) == 0);
    CHECK(keyrack_fs_open(path, KEYRACK_FS_READ_ONLY, 0, 0, &fs) == 0);
    CHECK(keyrack_fs_mkdir(fs, "/b", 0755) == -EROFS);
    CHECK(keyrack_fs_stat_path(fs, "/a/00000", &stat) == 0);
    CHECK(keyrack_fs_close(fs) == 0);
}

static void use_servers(const char *server, const char *token) {
    keyrack_fs *fs = NULL;
    keyrack_fs *second = NULL;
    keyrack_fs_stat stat;

    CHECK(keyrack_fs_connect(NULL, token, 0, 0, &fs) == -EINVAL);
    CHECK(keyrack_fs_connect("no address", token, 0, 0, &fs) == -EINVAL);
    CHECK(strstr(keyrack_fs_message(), "no address") != NULL);
    CHECK(keyrack_fs_connect(server, token, 0, 0, NULL) == -EINVAL);
    CHECK(keyrack_fs_connect(server, NULL, 0, 0, &fs) == -EACCES);
    CHECK(keyrack_fs_connect(server, token, 0, 0, &fs) == 0);
    CHECK(keyrack_fs_connect(server, token, 1000, 1000, &second) == 0);
    use_as_root(fs);
    use_with_threads(fs);
    /* What one client has done the next one sees. */
    CHECK(keyrack_fs_stat_path(second, "/a/00000", &stat) == -EACCES);
    CHECK(keyrack_fs_stat_path(second, "/g", &stat) == 0 && stat.uid == 12);
    use_as_another(second);
    CHECK(keyrack_fs_close(second) == 0);
    CHECK(keyrack_fs_close(fs) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    CHECK(keyrack_fs_version() == 2);
    CHECK(keyrack_fs_mkdir(NULL, "/a", 0755) == -EINVAL);
    CHECK(keyrack_fs_close(NULL) == 0);
    use_log(argv[1]);
    use_servers(argv[2], argv[3]);
    puts("done");
    return 0;
}
