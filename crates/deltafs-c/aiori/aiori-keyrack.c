/*
 * Keyrack as a backend of IOR, mdtest and md-workbench: their calls on a name space of files,
 * through libkeyrack_fs and without a mount.
 *
 *   mdtest, ior --> AIORI --> this file --> keyrack_fs.h --> servers, or a log of each rank
 *
 * With --keyrack.server all ranks are clients of one name space. With --keyrack.dir each rank has a
 * log of its own, as only one process writes a log: no rank sees the files of another. A rank then
 * makes the directories that another has made in its own log when it first needs them.
 *
 * A file is not opened at Keyrack, whose calls take paths. So a descriptor is a path. Opening one
 * asks for the file all the same: opening what is not there fails, as it does elsewhere.
 */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <keyrack_fs.h>

#include "ior.h"

#include "aiori.h"
#include "utilities.h"

/* The version of libkeyrack_fs that this file is written for. */
#define INTERFACE 2
/* Permissions of new files, as those of the backend for POSIX. */
#define FILE_MODE 0664
/* Permissions of directories of other ranks that are made again. */
#define DIR_MODE 0755

typedef struct {
    char *server;
    char *dir;
    int uid;
    int gid;
} options_t;

/* An open file. */
typedef struct {
    char path[KEYRACK_FS_PATH_SIZE];
} file_t;

/* The name space of this rank, and how often it was asked for. */
static keyrack_fs *fs;
static int uses;
static options_t used;
static const aiori_xfer_hint_t *hints;

static int is_dry(void) {
    return hints != NULL && hints->dryRun;
}

/* ---- Paths and results ---- */

/* A path of IOR, which may be relative, end with slashes or have several in a row, as one of Keyrack
 * without these. */
static const char *path_of(const char *path, char *to) {
    size_t length = 0;

    to[length++] = '/';
    for (; *path != '\0'; path++) {
        if (*path == '/' && to[length - 1] == '/')
            continue;
        if (length == KEYRACK_FS_PATH_SIZE - 1)
            ERRF("a path of more than %d bytes: %.64s...", KEYRACK_FS_PATH_SIZE - 1, to);
        to[length++] = *path;
    }
    if (length > 1 && to[length - 1] == '/')
        length--;
    to[length] = '\0';
    return to;
}

/* The result of a call as a system call has it. */
static int posix(int64_t result) {
    if (result >= 0)
        return 0;
    errno = (int)-result;
    return -1;
}

/* Makes the directories above a path, as far as they are missing. */
static int make_parents(const char *path) {
    char dir[KEYRACK_FS_PATH_SIZE];
    size_t end;

    for (end = 1; path[end] != '\0'; end++) {
        if (path[end] == '/') {
            int made;

            memcpy(dir, path, end);
            dir[end] = '\0';
            made = keyrack_fs_mkdir(fs, dir, DIR_MODE);
            if (made < 0 && made != -EEXIST)
                return made;
        }
    }
    return 0;
}

/* Whether a call can succeed once the directories of other ranks are there: they are made. */
static int has_new_parents(int result, const char *path) {
    return result == -ENOENT && used.dir != NULL && make_parents(path) == 0;
}

static int make_file(const char *path, uint32_t flags) {
    int made = keyrack_fs_create(fs, path, FILE_MODE, flags);

    return has_new_parents(made, path) ? keyrack_fs_create(fs, path, FILE_MODE, flags) : made;
}

/* ---- Options ---- */

static option_help *keyrack_options(aiori_mod_opt_t **given, aiori_mod_opt_t *defaults) {
    options_t *o = calloc(1, sizeof *o);
    option_help *help;

    if (o == NULL)
        ERR("no memory for the options of KEYRACK");
    if (defaults != NULL)
        memcpy(o, defaults, sizeof *o);
    *given = (aiori_mod_opt_t *)o;
    option_help all[] = {
        {0, "keyrack.server", "Address of the first server of a name space, HOST:PORT or unix:PATH",
         OPTION_OPTIONAL_ARGUMENT, 's', &o->server},
        {0, "keyrack.dir", "Instead of servers: where each rank has a log of its own",
         OPTION_OPTIONAL_ARGUMENT, 's', &o->dir},
        {0, "keyrack.uid", "Number of the user; 0 may do everything", OPTION_OPTIONAL_ARGUMENT, 'd',
         &o->uid},
        {0, "keyrack.gid", "Number of the group", OPTION_OPTIONAL_ARGUMENT, 'd', &o->gid},
        LAST_OPTION,
    };
    help = malloc(sizeof all);
    if (help == NULL)
        ERR("no memory for the options of KEYRACK");
    memcpy(help, all, sizeof all);
    return help;
}

static int keyrack_check_params(aiori_mod_opt_t *options) {
    const options_t *o = (const options_t *)options;

    if ((o->server == NULL) == (o->dir == NULL))
        ERR("KEYRACK needs either --keyrack.server=ADDRESS or --keyrack.dir=DIRECTORY");
    return 0;
}

/* ---- Beginning and end ---- */

static void open_log(const options_t *o) {
    char dir[KEYRACK_FS_PATH_SIZE];

    if (snprintf(dir, sizeof dir, "%s/r%d", o->dir, rank) >= (int)sizeof dir)
        ERRF("--keyrack.dir: a path of more than %d bytes", KEYRACK_FS_PATH_SIZE - 1);
    if (mkdir(o->dir, 0777) != 0 && errno != EEXIST)
        ERRF("cannot make %s: %s", o->dir, strerror(errno));
    if (keyrack_fs_open(dir, KEYRACK_FS_CREATE, (uint32_t)o->uid, (uint32_t)o->gid, &fs) < 0)
        ERRF("%s", keyrack_fs_message());
}

static void connect_servers(const options_t *o) {
    const char *token = getenv("KEYRACK_FS_TOKEN");

    if (keyrack_fs_connect(o->server, token, (uint32_t)o->uid, (uint32_t)o->gid, &fs) < 0)
        ERRF("%s", keyrack_fs_message());
}

/* IOR begins and ends once for each of its tests, mdtest once. */
static void keyrack_initialize(aiori_mod_opt_t *options) {
    if (uses++ > 0)
        return;
    if (keyrack_fs_version() != INTERFACE)
        ERRF("libkeyrack_fs has version %u of its interface; this program needs %u",
             keyrack_fs_version(), INTERFACE);
    used = *(const options_t *)options;
    if (used.dir != NULL)
        open_log(&used);
    else
        connect_servers(&used);
}

static void keyrack_finalize(aiori_mod_opt_t *options) {
    (void)options;
    if (--uses > 0)
        return;
    if (keyrack_fs_close(fs) < 0)
        WARNF("the end of the use failed: %s", keyrack_fs_message());
    fs = NULL;
}

static void keyrack_xfer_hints(aiori_xfer_hint_t *given) {
    hints = given;
}

static char *keyrack_version(void) {
    static char text[16];

    snprintf(text, sizeof text, "%u", keyrack_fs_version());
    return text;
}

/* ---- Files ---- */

static aiori_fd_t *failed(const char *what, file_t *file) {
    WARNF("cannot %s a file: %s", what, keyrack_fs_message());
    free(file);
    return NULL;
}

static aiori_fd_t *keyrack_create(char *name, int flags, aiori_mod_opt_t *options) {
    file_t *file = safeMalloc(sizeof *file);
    uint32_t exclusive = flags & IOR_EXCL ? KEYRACK_FS_EXCLUSIVE : 0;

    (void)options;
    path_of(name, file->path);
    if (is_dry())
        return (aiori_fd_t *)file;
    if (make_file(file->path, exclusive) < 0)
        return failed("create", file);
    /* Of a file that ranks share, one rank would cut what another has written already. */
    if (flags & IOR_TRUNC && hints != NULL && hints->filePerProc
        && keyrack_fs_truncate(fs, file->path, 0) < 0)
        return failed("truncate", file);
    return (aiori_fd_t *)file;
}

static aiori_fd_t *keyrack_open(char *name, int flags, aiori_mod_opt_t *options) {
    file_t *file;
    keyrack_fs_stat found;

    if (flags & IOR_CREAT)
        return keyrack_create(name, flags, options);
    file = safeMalloc(sizeof *file);
    path_of(name, file->path);
    if (!is_dry() && keyrack_fs_stat_path(fs, file->path, &found) < 0)
        return failed("open", file);
    return (aiori_fd_t *)file;
}

static int keyrack_mknod(char *name) {
    char path[KEYRACK_FS_PATH_SIZE];

    return posix(make_file(path_of(name, path), KEYRACK_FS_EXCLUSIVE));
}

static void keyrack_fsync(aiori_fd_t *fd, aiori_mod_opt_t *options) {
    (void)fd;
    (void)options;
    if (!is_dry() && keyrack_fs_sync(fs) < 0)
        WARNF("cannot sync: %s", keyrack_fs_message());
}

static void keyrack_sync(aiori_mod_opt_t *options) {
    keyrack_fsync(NULL, options);
}

/* Returns the bytes that were moved, or -1. Fewer are read only at the end of a file. */
static IOR_offset_t keyrack_xfer(int access, aiori_fd_t *fd, IOR_size_t *buffer,
                                 IOR_offset_t length, IOR_offset_t offset,
                                 aiori_mod_opt_t *options) {
    const file_t *file = (const file_t *)fd;
    int64_t moved;

    if (is_dry())
        return length;
    if (access == WRITE)
        moved = keyrack_fs_write(fs, file->path, (uint64_t)offset, buffer, (size_t)length);
    else
        moved = keyrack_fs_read(fs, file->path, (uint64_t)offset, buffer, (size_t)length);
    if (moved < 0) {
        WARNF("cannot %s a file: %s", access == WRITE ? "write" : "read", keyrack_fs_message());
        return -1;
    }
    if (access == WRITE && hints != NULL && hints->fsyncPerWrite)
        keyrack_fsync(fd, options);
    return (IOR_offset_t)moved;
}

static void keyrack_close(aiori_fd_t *fd, aiori_mod_opt_t *options) {
    (void)options;
    free(fd);
}

static void keyrack_remove(char *name, aiori_mod_opt_t *options) {
    char path[KEYRACK_FS_PATH_SIZE];

    (void)options;
    if (!is_dry() && keyrack_fs_unlink(fs, path_of(name, path)) < 0)
        WARNF("cannot remove a file: %s", keyrack_fs_message());
}

static int keyrack_stat(const char *name, struct stat *to, aiori_mod_opt_t *options) {
    char path[KEYRACK_FS_PATH_SIZE];
    keyrack_fs_stat found;
    int result = keyrack_fs_stat_path(fs, path_of(name, path), &found);

    (void)options;
    if (result < 0)
        return posix(result);
    memset(to, 0, sizeof *to);
    to->st_ino = (ino_t)found.inode_low;
    to->st_mode = (mode_t)found.mode;
    to->st_nlink = (nlink_t)found.nlink;
    to->st_uid = found.uid;
    to->st_gid = found.gid;
    to->st_size = (off_t)found.size;
    to->st_mtime = (time_t)(found.mtime_ns / 1000000000);
    to->st_ctime = (time_t)(found.ctime_ns / 1000000000);
    return 0;
}

static IOR_offset_t keyrack_get_file_size(aiori_mod_opt_t *options, char *name) {
    struct stat found;

    if (keyrack_stat(name, &found, options) != 0) {
        WARNF("cannot ask for the size of a file: %s", keyrack_fs_message());
        return -1;
    }
    return (IOR_offset_t)found.st_size;
}

/* ---- Names and directories ---- */

static int keyrack_mkdir(const char *name, mode_t mode, aiori_mod_opt_t *options) {
    char path[KEYRACK_FS_PATH_SIZE];
    int made = keyrack_fs_mkdir(fs, path_of(name, path), (uint32_t)mode);

    (void)options;
    if (has_new_parents(made, path))
        made = keyrack_fs_mkdir(fs, path, (uint32_t)mode);
    return posix(made);
}

static int keyrack_rmdir(const char *name, aiori_mod_opt_t *options) {
    char path[KEYRACK_FS_PATH_SIZE];

    (void)options;
    return posix(keyrack_fs_rmdir(fs, path_of(name, path)));
}

static int keyrack_rename(const char *from, const char *to, aiori_mod_opt_t *options) {
    char old_path[KEYRACK_FS_PATH_SIZE];
    char new_path[KEYRACK_FS_PATH_SIZE];

    (void)options;
    return posix(keyrack_fs_rename(fs, path_of(from, old_path), path_of(to, new_path), 0));
}

/* Whether the user has the rights, by the bits of owner, group or others. */
static int keyrack_access(const char *name, int mode, aiori_mod_opt_t *options) {
    struct stat found;
    int shift = 0;

    if (keyrack_stat(name, &found, options) != 0)
        return -1;
    if (used.uid == 0 || mode == F_OK)
        return 0;
    if (found.st_uid == (uid_t)used.uid)
        shift = 6;
    else if (found.st_gid == (gid_t)used.gid)
        shift = 3;
    if (((int)(found.st_mode >> shift) & mode & 7) == mode)
        return 0;
    errno = EACCES;
    return -1;
}

/* The disk of the logs. Servers do not say what theirs have, so theirs seem to be empty. */
static int keyrack_statfs(const char *name, ior_aiori_statfs_t *to, aiori_mod_opt_t *options) {
    struct statvfs disk;

    (void)name;
    (void)options;
    *to = (ior_aiori_statfs_t){1, 1, 1, 1, 1, 1};
    if (used.dir == NULL)
        return 0;
    if (statvfs(used.dir, &disk) != 0)
        return -1;
    to->f_bsize = disk.f_frsize;
    to->f_blocks = disk.f_blocks;
    to->f_bfree = disk.f_bfree;
    to->f_bavail = disk.f_bavail;
    to->f_files = disk.f_files;
    to->f_ffree = disk.f_ffree;
    return 0;
}

ior_aiori_t keyrack_aiori = {
    .name = "KEYRACK",
    .name_legacy = NULL,
    .create = keyrack_create,
    .mknod = keyrack_mknod,
    .open = keyrack_open,
    .xfer_hints = keyrack_xfer_hints,
    .xfer = keyrack_xfer,
    .close = keyrack_close,
    .remove = keyrack_remove,
    .get_version = keyrack_version,
    .fsync = keyrack_fsync,
    .get_file_size = keyrack_get_file_size,
    .statfs = keyrack_statfs,
    .mkdir = keyrack_mkdir,
    .rmdir = keyrack_rmdir,
    .access = keyrack_access,
    .stat = keyrack_stat,
    .initialize = keyrack_initialize,
    .finalize = keyrack_finalize,
    .rename = keyrack_rename,
    .get_options = keyrack_options,
    .check_params = keyrack_check_params,
    .sync = keyrack_sync,
    .enable_mdtest = true,
};
