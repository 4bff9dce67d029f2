/* C functions that programs call: see legato.runtime.c_functions. */
#include <stdint.h>

typedef struct { int32_t type, id; } DLDevice;
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DLTensor;

/* (float32[n, m], (dim k, int64[])) -> (float32[n, m], int64[]): out = x * k + c, and how many elements there are. */
int scale(DLTensor **args, int n) {
    DLTensor *x = args[0], *k = args[1], *c = args[2], *out = args[3], *count = args[4];
    if (n != 5 || x->device.type != 1 || x->dtype.code != 2 || x->dtype.bits != 32 || k->dtype.code != 0 || k->ndim)
        return -1;
    if (x->ndim != 2 || out->strides[1] != 1 || out->strides[0] != x->shape[1] || *(int64_t *)count->data != 0)
        return -2;
    int64_t size = x->shape[0] * x->shape[1];
    for (int64_t i = 0; i < size; i++)
        ((float *)out->data)[i] = ((float *)x->data)[i] * *(int64_t *)k->data + *(int64_t *)c->data;
    *(int64_t *)count->data = size;
    return 0;
}

int fails(DLTensor **args, int n) {
    *(float *)args[n - 2]->data = 7;
    return -3;
}
