/* Records what a program asks of NCCL, from between the two: for programs that have no recorder of their own.

       cc -shared -fPIC -O2 -o libnccl_calls.so nccl_calls.c -ldl
       LD_PRELOAD=$PWD/libnccl_calls.so NCCL_CALLS=calls.%p.csv python jax_dp.py

   A row for each call, when it is made: time_ns (CLOCK_REALTIME), op, group (a hash of the communicator's unique id),
   count and datatype as given. A row CommInit has the group's size as count and the rank in it as datatype.
   Programs get at NCCL by linking with it or by dlopen and dlsym: both end here.

   Signatures: NCCL 2.28, src/nccl.h.in. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    char internal[128];
} unique_id;

static void *(*real_dlsym)(void *, const char *);

__attribute__((constructor)) static void begin(void) {
    if (!real_dlsym) real_dlsym = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
}

static void row(const char *op, uint64_t group, size_t count, int datatype) {
    static int file = -1;
    char line[256], path[4096];
    if (file < 0) {
        const char *to = getenv("NCCL_CALLS"), *pid = to ? strstr(to, "%p") : NULL;
        if (!to) return;
        if (pid)
            snprintf(path, sizeof path, "%.*s%d%s", (int)(pid - to), to, (int)getpid(), pid + 2);
        else
            snprintf(path, sizeof path, "%s", to);
        file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
        if (file < 0) return;
        static const char head[] = "time_ns,op,group,count,datatype\n";
        if (write(file, head, sizeof head - 1) < 0) return;
    }
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    int n = snprintf(line, sizeof line, "%lld,%s,%016llx,%zu,%d\n", (long long)t.tv_sec * 1000000000 + t.tv_nsec, op,
                     (unsigned long long)group, count, datatype);
    if (write(file, line, n) < 0) return;
}

/* Communicators and the groups they belong to. */
static struct {
    void *comm;
    uint64_t group;
} known[1024];
static int many;

static uint64_t group_of(void *comm) {
    for (int i = many; i-- > 0;)
        if (known[i].comm == comm) return known[i].group;
    return 0;
}

static void enter(void **comm, int size, const unique_id *id, int rank, int result) {
    uint64_t hash = 1469598103934665603u; /* FNV-1a */
    for (size_t i = 0; i < sizeof id->internal; i++) hash = (hash ^ (unsigned char)id->internal[i]) * 1099511628211u;
    if (many < 1024 && (result == 0 || result == 7)) { /* ncclSuccess, ncclInProgress */
        known[many].comm = *comm;
        known[many++].group = hash;
    }
    row("CommInit", hash, size, rank);
}

static void *next(const char *name);

#define REAL(name) \
    static __typeof__(&name) real; \
    begin(); \
    if (!real) real = (__typeof__(&name))next(#name)

int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, void *comm, void *stream) {
    REAL(ncclAllReduce);
    row("AllReduce", group_of(comm), count, type);
    return real(in, out, count, type, op, comm, stream);
}

int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, void *comm, void *stream) {
    REAL(ncclBroadcast);
    row("Broadcast", group_of(comm), count, type);
    return real(in, out, count, type, root, comm, stream);
}

int ncclReduce(const void *in, void *out, size_t count, int type, int op, int root, void *comm, void *stream) {
    REAL(ncclReduce);
    row("Reduce", group_of(comm), count, type);
    return real(in, out, count, type, op, root, comm, stream);
}

int ncclAllGather(const void *in, void *out, size_t count, int type, void *comm, void *stream) {
    REAL(ncclAllGather);
    row("AllGather", group_of(comm), count, type);
    return real(in, out, count, type, comm, stream);
}

int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, void *comm, void *stream) {
    REAL(ncclReduceScatter);
    row("ReduceScatter", group_of(comm), count, type);
    return real(in, out, count, type, op, comm, stream);
}

int ncclSend(const void *in, size_t count, int type, int peer, void *comm, void *stream) {
    REAL(ncclSend);
    row("Send", group_of(comm), count, type);
    return real(in, count, type, peer, comm, stream);
}

int ncclRecv(void *out, size_t count, int type, int peer, void *comm, void *stream) {
    REAL(ncclRecv);
    row("Recv", group_of(comm), count, type);
    return real(out, count, type, peer, comm, stream);
}

int ncclAlltoAll(const void *in, void *out, size_t count, int type, void *comm, void *stream) {
    REAL(ncclAlltoAll);
    row("AlltoAll", group_of(comm), count, type);
    return real(in, out, count, type, comm, stream);
}

int ncclCommInitRank(void **comm, int size, unique_id id, int rank) {
    REAL(ncclCommInitRank);
    int result = real(comm, size, id, rank);
    enter(comm, size, &id, rank, result);
    return result;
}

int ncclCommInitRankConfig(void **comm, int size, unique_id id, int rank, void *config) {
    REAL(ncclCommInitRankConfig);
    int result = real(comm, size, id, rank, config);
    enter(comm, size, &id, rank, result);
    return result;
}

int ncclCommInitRankScalable(void **comm, int size, int rank, int ids, unique_id *id, void *config) {
    REAL(ncclCommInitRankScalable);
    int result = real(comm, size, rank, ids, id, config);
    enter(comm, size, id, rank, result);
    return result;
}

static struct {
    const char *name;
    void *mine, *found;
} functions[] = {
    {"ncclAllReduce", ncclAllReduce, NULL},
    {"ncclBroadcast", ncclBroadcast, NULL},
    {"ncclReduce", ncclReduce, NULL},
    {"ncclAllGather", ncclAllGather, NULL},
    {"ncclReduceScatter", ncclReduceScatter, NULL},
    {"ncclSend", ncclSend, NULL},
    {"ncclRecv", ncclRecv, NULL},
    {"ncclAlltoAll", ncclAlltoAll, NULL},
    {"ncclCommInitRank", ncclCommInitRank, NULL},
    {"ncclCommInitRankConfig", ncclCommInitRankConfig, NULL},
    {"ncclCommInitRankScalable", ncclCommInitRankScalable, NULL},
};
#define MANY (sizeof functions / sizeof *functions)

/* NCCL's own function: the one that dlsym found, or that of the library that the program is linked with. It may have been
   loaded for one module alone (RTLD_LOCAL), so the next one in the order of the program may be none. */
static void *next(const char *name) {
    for (size_t i = 0; i < MANY; i++)
        if (functions[i].found && !strcmp(functions[i].name, name)) return functions[i].found;
    void *loaded = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
    return real_dlsym(loaded ? loaded : RTLD_NEXT, name);
}

void *dlsym(void *handle, const char *name) {
    begin();
    void *at = real_dlsym(handle, name);
    for (size_t i = 0; at && i < MANY; i++) {
        if (strcmp(functions[i].name, name)) continue;
        if (at != functions[i].mine) functions[i].found = at;
        return functions[i].mine;
    }
    return at;
}
