/* A program that embeds Python, without its headers: initialises and finalises it several times, with allocations of
 * Python and of its own before, between and after. argv[1]: path of libpython, loaded for this program alone. */
#include "driver.h"

typedef struct object object;

/* PyMethodDef, and METH_O. */
struct method {
    const char *name;
    object *(*call)(object *, object *);
    int flags;
    const char *doc;
};
#define ONE_ARGUMENT 8

#define PYTHON(F)                                                                                  \
    F(void, Py_InitializeEx, (int))                                                                \
    F(int, Py_FinalizeEx, (void))                                                                  \
    F(int, PyRun_SimpleString, (const char *))                                                     \
    F(object *, PyImport_AddModule, (const char *))                                                \
    F(object *, PyCFunction_NewEx, (struct method *, object *, object *))                          \
    F(int, PyObject_SetAttrString, (object *, const char *, object *))                             \
    F(long, PyLong_AsLong, (object *))                                                             \
    F(object *, PyLong_FromLong, (long))

#define FIELD_(type, name, arguments) static type(*f_##name) arguments;
PYTHON(FIELD_)

SITE void take(size_t size) {
    CUdeviceptr block;
    CHECK(CU(cuMemAlloc)(&block, size));
}

static object *take_for_python(object *self, object *size) {
    (void)self;
    take((size_t)f_PyLong_AsLong(size));
    return f_PyLong_FromLong(0);
}

static struct method method = {"take", take_for_python, ONE_ARGUMENT, NULL};

static const char script[] =
    "def embedded():\n"
    "    take(4096)\n"
    "embedded()\n";

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    by_dlsym();
    use_device(0);
    take(1024);
    void *python = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (python == NULL) fprintf(stderr, "%s\n", dlerror());
    REQUIRE(python != NULL);
#define FIND(type, name, arguments)                                                                \
    f_##name = (type(*) arguments)dlsym(python, #name);                                            \
    REQUIRE(f_##name != NULL);
    PYTHON(FIND)
    take(2048);
    for (int round = 0; round < 3; round++) {
        f_Py_InitializeEx(0);
        object *main_module = f_PyImport_AddModule("__main__");
        object *function = f_PyCFunction_NewEx(&method, NULL, NULL);
        CHECK(f_PyObject_SetAttrString(main_module, "take", function));
        CHECK(f_PyRun_SimpleString(script));
        CHECK(f_Py_FinalizeEx());
        take(3072);
    }
    return 0;
}
