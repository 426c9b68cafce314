/* What the backend for IOR uses of IOR, declared again for where IOR is not: a test compiles the
 * backend against this and calls it. Names and types are IOR's; nothing else is here. */
#ifndef AIORI_H
#define AIORI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

typedef long long int IOR_offset_t;
typedef long long int IOR_size_t;

enum { WRITE = 0, READ = 2 };
enum { IOR_RDONLY = 0x01, IOR_WRONLY = 0x02, IOR_CREAT = 0x10, IOR_TRUNC = 0x20, IOR_EXCL = 0x40 };

typedef struct {
    uint64_t f_bsize, f_blocks, f_bfree, f_bavail, f_files, f_ffree;
} ior_aiori_statfs_t;

typedef struct {
    int dryRun;
    int filePerProc;
    int fsyncPerWrite;
} aiori_xfer_hint_t;

typedef struct {
    void *dummy;
} aiori_mod_opt_t;

typedef struct {
    void *dummy;
} aiori_fd_t;

typedef enum { OPTION_FLAG, OPTION_OPTIONAL_ARGUMENT } option_value_type;

typedef struct {
    char shortVar;
    char *longVar;
    char *help;
    option_value_type arg;
    char type;
    void *variable;
} option_help;

#define LAST_OPTION {0, 0, 0, (option_value_type)0, 0, NULL}

typedef struct {
    char *name;
    char *name_legacy;
    aiori_fd_t *(*create)(char *, int, aiori_mod_opt_t *);
    int (*mknod)(char *);
    aiori_fd_t *(*open)(char *, int, aiori_mod_opt_t *);
    void (*xfer_hints)(aiori_xfer_hint_t *);
    IOR_offset_t (*xfer)(int, aiori_fd_t *, IOR_size_t *, IOR_offset_t, IOR_offset_t,
                         aiori_mod_opt_t *);
    void (*close)(aiori_fd_t *, aiori_mod_opt_t *);
    void (*remove)(char *, aiori_mod_opt_t *);
    char *(*get_version)(void);
    void (*fsync)(aiori_fd_t *, aiori_mod_opt_t *);
    IOR_offset_t (*get_file_size)(aiori_mod_opt_t *, char *);
    int (*statfs)(const char *, ior_aiori_statfs_t *, aiori_mod_opt_t *);
    int (*mkdir)(const char *, mode_t, aiori_mod_opt_t *);
    int (*rmdir)(const char *, aiori_mod_opt_t *);
    int (*access)(const char *, int, aiori_mod_opt_t *);
    int (*stat)(const char *, struct stat *, aiori_mod_opt_t *);
    void (*initialize)(aiori_mod_opt_t *);
    void (*finalize)(aiori_mod_opt_t *);
    int (*rename)(const char *, const char *, aiori_mod_opt_t *);
    option_help *(*get_options)(aiori_mod_opt_t **, aiori_mod_opt_t *);
    int (*check_params)(aiori_mod_opt_t *);
    void (*sync)(aiori_mod_opt_t *);
    bool enable_mdtest;
} ior_aiori_t;

extern int rank;
extern int warnings;

void *safeMalloc(uint64_t size);

/* A warning is printed and counted; an error ends the program with status 3. */
#define WARNF(FORMAT, ...) (warnings++, printf("WARNING: " FORMAT "\n", __VA_ARGS__))
#define ERRF(FORMAT, ...) (printf("ERROR: " FORMAT "\n", __VA_ARGS__), exit(3))
#define ERR(MESSAGE) ERRF("%s", MESSAGE)

#endif
