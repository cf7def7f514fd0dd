/* Opens libpmi.so.0 like programs that are not linked with it; prints "dlopen ok RANK SIZE". */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *library;

static void *symbol(const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return found;
}

static int number(const char *name) {
    int value, (*function)(int *);
    *(void **)&function = symbol(name);
    if (function(&value) != 0) {
        fprintf(stderr, "%s failed\n", name);
        exit(1);
    }
    return value;
}

int main(void) {
    int (*finalize)(void);
    library = dlopen("libpmi.so.0", RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    symbol("MPD_Signal_rank");
    number("PMI_Init");
    printf("dlopen ok %d %d\n", number("PMI_Get_rank"), number("PMI_Get_size"));
    *(void **)&finalize = symbol("PMI_Finalize");
    return finalize();
}
