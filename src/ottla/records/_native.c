/* The loop over the records of a batch, for `decoding`: what Python does there number by number.
 *
 * Rules
 * - It takes records as long as each is whole, in order and within the bounds of the block, and stops in front of
 *   the first one that is not. The caller decodes that one in Python, which alone decides what is wrong with it.
 * - Every read is checked against `end`: the bytes come from the network.
 * - Limited API of Python 3.11: one binary for all later versions.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>

typedef struct {
    const uint8_t *data;
    Py_ssize_t at;
    Py_ssize_t end;
} Cursor;

/* A varint of up to nine bytes, 63 bits; 0 if there is none, or a longer one. */
static int read_number(Cursor *cursor, uint64_t *number)
{
    uint64_t result = 0;
    for (int shift = 0; shift < 63; shift += 7) {
        if (cursor->at >= cursor->end)
            return 0;
        uint8_t byte = cursor->data[cursor->at++];
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *number = result;
            return 1;
        }
    }
    return 0;
}

static int64_t signed_of(uint64_t zigzag)
{
    return (int64_t)(zigzag >> 1) ^ -(int64_t)(zigzag & 1);
}

/* A field with its length before it: a new reference, None for null. NULL without an error if it does not fit. */
static PyObject *read_field(Cursor *cursor)
{
    uint64_t length;
    if (!read_number(cursor, &length))
        return NULL;
    if (length == 1)
        return Py_NewRef(Py_None);
    uint64_t size = length >> 1;
    if (length & 1 || size > (uint64_t)(cursor->end - cursor->at))
        return NULL;
    const char *start = (const char *)cursor->data + cursor->at;
    cursor->at += (Py_ssize_t)size;
    return PyBytes_FromStringAndSize(start, (Py_ssize_t)size);
}

static PyObject *read_header_key(Cursor *cursor)
{
    uint64_t length;
    if (!read_number(cursor, &length) || length & 1)
        return NULL;
    uint64_t size = length >> 1;
    if (size > (uint64_t)(cursor->end - cursor->at))
        return NULL;
    const char *start = (const char *)cursor->data + cursor->at;
    cursor->at += (Py_ssize_t)size;
    return PyUnicode_DecodeUTF8(start, (Py_ssize_t)size, "surrogateescape");
}

static PyObject *read_header(Cursor *cursor)
{
    PyObject *key = read_header_key(cursor);
    if (key == NULL)
        return NULL;
    PyObject *value = read_field(cursor);
    if (value == NULL) {
        Py_DECREF(key);
        return NULL;
    }
    PyObject *header = PyTuple_Pack(2, key, value);
    Py_DECREF(key);
    Py_DECREF(value);
    return header;
}

/* The headers of a record as a tuple; NULL without an error if they do not fit. */
static PyObject *read_headers(Cursor *cursor, uint64_t count)
{
    /* A header has two bytes at least: nothing is made for a number that was made up. */
    if (count > (uint64_t)(cursor->end - cursor->at) / 2)
        return NULL;
    PyObject *headers = PyTuple_New((Py_ssize_t)count);
    for (Py_ssize_t index = 0; headers != NULL && index < (Py_ssize_t)count; index++) {
        PyObject *header = read_header(cursor);
        if (header == NULL || PyTuple_SetItem(headers, index, header) < 0)
            Py_CLEAR(headers);
    }
    return headers;
}

/* One record; the references are new. `headers` is NULL where there are none. */
typedef struct {
    int64_t timestamp_delta;
    uint64_t offset_delta; /* in zig-zag */
    PyObject *key;
    PyObject *value;
    PyObject *headers;
} Record;

static void release(Record *record)
{
    Py_CLEAR(record->key);
    Py_CLEAR(record->value);
    Py_CLEAR(record->headers);
}

/* Read the record at the cursor and move behind it; 0 if it is not whole, with or without a Python error. */
static int read_record(Cursor *cursor, Record *record)
{
    uint64_t length, timestamp, count;
    record->key = record->value = record->headers = NULL;
    if (!read_number(cursor, &length) || length & 1 || length >> 1 > (uint64_t)(cursor->end - cursor->at))
        return 0;
    Cursor inside = {cursor->data, cursor->at + 1, cursor->at + (Py_ssize_t)(length >> 1)};
    if (!read_number(&inside, &timestamp) || !read_number(&inside, &record->offset_delta))
        return 0;
    record->timestamp_delta = signed_of(timestamp);
    record->key = read_field(&inside);
    record->value = record->key == NULL ? NULL : read_field(&inside);
    if (record->value == NULL || !read_number(&inside, &count) || count & 1)
        return 0;
    if (count && (record->headers = read_headers(&inside, count >> 1)) == NULL)
        return 0;
    cursor->at = inside.end;
    return inside.at == inside.end;
}

/* The columns that records are added to, and what is known of the batch. */
typedef struct {
    PyObject *keys, *values, *timestamps, *headers, *gaps;
    long long base_offset, base_timestamp, most_missing;
    int use_delta;
    int64_t latest_delta;
    PyObject *latest_timestamp;
} Batch;

static int add_timestamp(Batch *batch, int64_t delta)
{
    if (batch->latest_timestamp == NULL || delta != batch->latest_delta) {
        /* Both are below 2^62 in size: see `take`. */
        long long timestamp = batch->base_timestamp + (batch->use_delta ? delta : 0);
        Py_XDECREF(batch->latest_timestamp);
        batch->latest_timestamp = PyLong_FromLongLong(timestamp);
        if (batch->latest_timestamp == NULL)
            return 0;
        batch->latest_delta = delta;
    }
    return PyList_Append(batch->timestamps, batch->latest_timestamp) == 0;
}

static int add_headers(Batch *batch, Py_ssize_t place, PyObject *headers)
{
    PyObject *index = PyLong_FromSsize_t(place);
    int is_added = index != NULL && PyDict_SetItem(batch->headers, index, headers) == 0;
    Py_XDECREF(index);
    return is_added;
}

static int add_gap(Batch *batch, Py_ssize_t place, uint64_t offset_delta)
{
    PyObject *gap = Py_BuildValue("nL", place, batch->base_offset + (long long)(offset_delta >> 1));
    int is_added = gap != NULL && PyList_Append(batch->gaps, gap) == 0;
    Py_XDECREF(gap);
    return is_added;
}

static int add(Batch *batch, Record *record, Py_ssize_t place, uint64_t expected_delta)
{
    if (record->offset_delta != expected_delta && !add_gap(batch, place, record->offset_delta))
        return 0;
    if (record->headers != NULL && !add_headers(batch, place, record->headers))
        return 0;
    return add_timestamp(batch, record->timestamp_delta) && PyList_Append(batch->keys, record->key) == 0 &&
           PyList_Append(batch->values, record->value) == 0;
}

static int is_in_order(const Record *record, const Batch *batch, Py_ssize_t place, uint64_t expected_delta)
{
    if (record->timestamp_delta >= 1LL << 61 || record->timestamp_delta <= -(1LL << 61))
        return 0;
    if (record->offset_delta == expected_delta)
        return 1;
    return record->offset_delta > expected_delta && !(record->offset_delta & 1) &&
           record->offset_delta < (uint64_t)1 << 33 &&
           (long long)(record->offset_delta >> 1) - place <= batch->most_missing;
}

/* Take up to `wanted` records; how many were taken, -1 with a Python error. */
static Py_ssize_t take_records(Cursor *cursor, Batch *batch, Py_ssize_t wanted, uint64_t *delta)
{
    Py_ssize_t before = PyList_Size(batch->values), taken = 0;
    while (taken < wanted) {
        Record record;
        Cursor ahead = *cursor;
        Py_ssize_t place = before + taken;
        int is_whole = read_record(&ahead, &record) && is_in_order(&record, batch, place, *delta);
        int is_added = is_whole && add(batch, &record, place, *delta);
        release(&record);
        if (PyErr_Occurred())
            return -1;
        if (!is_added)
            break;
        *delta = record.offset_delta + 2;
        *cursor = ahead;
        taken++;
    }
    return taken;
}

PyDoc_STRVAR(take_doc,
             "take(block, position, end, wanted, delta, base_offset, base_timestamp, use_delta, most_missing,\n"
             "     keys, values, timestamps, headers, gaps) -> (position, delta, taken)\n--\n\n"
             "Add whole records to the columns, up to a number of them or to the first unusual one.");

static PyObject *take(PyObject *module, PyObject *arguments)
{
    Py_buffer block;
    Cursor cursor;
    Batch batch = {0};
    Py_ssize_t wanted, taken = -1;
    unsigned long long delta;
    if (!PyArg_ParseTuple(arguments, "y*nnnKLLpLO!O!O!O!O!:take", &block, &cursor.at, &cursor.end, &wanted, &delta,
                          &batch.base_offset, &batch.base_timestamp, &batch.use_delta, &batch.most_missing,
                          &PyList_Type, &batch.keys, &PyList_Type, &batch.values, &PyList_Type, &batch.timestamps,
                          &PyDict_Type, &batch.headers, &PyList_Type, &batch.gaps))
        return NULL;
    cursor.data = block.buf;
    uint64_t next = delta;
    int is_far = batch.base_timestamp >= 1LL << 61 || batch.base_timestamp <= -(1LL << 61) ||
                 batch.base_offset >= 1LL << 61;
    if (cursor.at < 0 || cursor.at > cursor.end || cursor.end > block.len)
        PyErr_SetString(PyExc_ValueError, "the records are not within the block");
    else
        taken = is_far ? 0 : take_records(&cursor, &batch, wanted, &next);
    PyBuffer_Release(&block);
    Py_XDECREF(batch.latest_timestamp);
    if (taken < 0)
        return NULL;
    return Py_BuildValue("nKn", cursor.at, (unsigned long long)next, taken);
}

static PyMethodDef methods[] = {{"take", take, METH_VARARGS, take_doc}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "The loop over the records of a batch, compiled.", 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
