/* The loops over the records of a batch, for `decoding` and `columns`: what Python does there number by number.
 *
 * Rules of both
 * - Limited API of Python 3.11: one binary for all later versions.
 *
 * Rules of reading
 * - It takes records as long as each is whole, in order and within the bounds of the block, and stops in front of
 *   the first one that is not. The caller decodes that one in Python, which alone decides what is wrong with it.
 * - Every read is checked against `end`: the bytes come from the network.
 *
 * Rules of writing
 * - The bytes are those that Python makes of the same columns. Columns that hold anything but bytes, null and names
 *   in UTF-8, or a number that has no room, are left to Python: the answer is None.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

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

/* The block that is written. Room for the next record is made before it is written. */
typedef struct {
    uint8_t *data;
    size_t used;
    size_t size;
} Block;

static int make_room(Block *block, size_t wanted)
{
    if (block->size - block->used >= wanted)
        return 1;
    size_t size = block->size * 2 > block->used + wanted ? block->size * 2 : block->used + wanted;
    uint8_t *data = PyMem_Realloc(block->data, size);
    if (data == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    block->data = data;
    block->size = size;
    return 1;
}

static uint64_t zigzag_of(int64_t number)
{
    return ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
}

static size_t number_bytes(uint64_t zigzag)
{
    size_t bytes = 1;
    while (zigzag >>= 7)
        bytes++;
    return bytes;
}

static void put_number(Block *block, uint64_t zigzag)
{
    for (; zigzag >= 0x80; zigzag >>= 7)
        block->data[block->used++] = (uint8_t)(zigzag | 0x80);
    block->data[block->used++] = (uint8_t)zigzag;
}

/* A field to write: `size` is -1 for null. The bytes belong to a Python object that the columns hold. */
typedef struct {
    const char *data;
    Py_ssize_t size;
} Field;

static size_t field_bytes(Field field)
{
    return number_bytes(zigzag_of(field.size)) + (field.size > 0 ? (size_t)field.size : 0);
}

static void put_field(Block *block, Field field)
{
    put_number(block, zigzag_of(field.size));
    if (field.size > 0) {
        memcpy(block->data + block->used, field.data, (size_t)field.size);
        block->used += (size_t)field.size;
    }
}

/* 0 without an error if it is neither bytes nor null. */
static int field_of(PyObject *object, Field *field)
{
    field->data = NULL;
    field->size = -1;
    if (object == Py_None)
        return 1;
    if (object == NULL || !PyBytes_Check(object))
        return 0;
    field->data = PyBytes_AsString(object);
    field->size = PyBytes_Size(object);
    return 1;
}

/* 0 without an error if it is no pair of a name in UTF-8 and a field. */
static int header_of(PyObject *pair, Field *name, Field *content)
{
    if (pair == NULL || !PyTuple_Check(pair) || PyTuple_Size(pair) != 2)
        return 0;
    PyObject *text = PyTuple_GetItem(pair, 0);
    if (!PyUnicode_Check(text))
        return 0;
    name->data = PyUnicode_AsUTF8AndSize(text, &name->size);
    if (name->data == NULL) {
        PyErr_Clear(); /* a surrogate, which Python knows how to write */
        return 0;
    }
    return field_of(PyTuple_GetItem(pair, 1), content);
}

/* The bytes of all headers, -1 if one of them is unusual. */
static Py_ssize_t headers_bytes(PyObject *headers)
{
    size_t bytes = 0;
    Field name, content;
    for (Py_ssize_t index = 0; index < PyTuple_Size(headers); index++) {
        if (!header_of(PyTuple_GetItem(headers, index), &name, &content))
            return -1;
        bytes += field_bytes(name) + field_bytes(content);
    }
    return (Py_ssize_t)bytes;
}

static void put_headers(Block *block, PyObject *headers)
{
    Field name, content;
    for (Py_ssize_t index = 0; index < PyTuple_Size(headers); index++) {
        if (header_of(PyTuple_GetItem(headers, index), &name, &content)) {
            put_field(block, name);
            put_field(block, content);
        }
    }
}

/* The headers of a record: a borrowed tuple, NULL if there are none. 0 if they are not a tuple. */
static int headers_at(PyObject *all, Py_ssize_t place, PyObject **headers)
{
    *headers = NULL;
    if (PyDict_Size(all) == 0)
        return 1;
    PyObject *index = PyLong_FromSsize_t(place);
    if (index == NULL)
        return 0;
    *headers = PyDict_GetItemWithError(all, index);
    Py_DECREF(index);
    return *headers == NULL ? !PyErr_Occurred() : PyTuple_Check(*headers);
}

static int put_record(Block *block, int64_t timestamp_delta, Py_ssize_t place, Field key, Field value, PyObject *headers)
{
    Py_ssize_t count = headers == NULL ? 0 : PyTuple_Size(headers);
    Py_ssize_t in_headers = headers == NULL ? 0 : headers_bytes(headers);
    if (in_headers < 0)
        return 0;
    uint64_t stamp = zigzag_of(timestamp_delta), offset = zigzag_of(place);
    size_t size = 1 + number_bytes(stamp) + number_bytes(offset) + field_bytes(key) + field_bytes(value) +
                  number_bytes(zigzag_of(count)) + (size_t)in_headers;
    if (size > INT32_MAX || !make_room(block, size + 5))
        return 0;
    put_number(block, zigzag_of((int64_t)size));
    block->data[block->used++] = 0; /* attributes, which are unused */
    put_number(block, stamp);
    put_number(block, offset);
    put_field(block, key);
    put_field(block, value);
    put_number(block, zigzag_of(count));
    if (headers != NULL)
        put_headers(block, headers);
    return 1;
}

/* Where timestamps change: the columns' list of (index, timestamp), read one ahead. */
typedef struct {
    PyObject *list;
    Py_ssize_t read;
    int64_t base, current;
    long long next_place, next; /* the place is -1 at the end of the list */
} Stamps;

/* Read the next pair. 0 without an error if it is unusual. */
static int look_ahead(Stamps *stamps)
{
    stamps->next_place = -1;
    if (stamps->read >= PyList_Size(stamps->list))
        return 1;
    PyObject *pair = PyList_GetItem(stamps->list, stamps->read++);
    if (!PyTuple_Check(pair) || !PyArg_ParseTuple(pair, "LL", &stamps->next_place, &stamps->next)) {
        PyErr_Clear();
        return 0;
    }
    return stamps->next_place >= 0 && stamps->next < 1LL << 61 && stamps->next > -(1LL << 61);
}

/* Make the timestamp of the record at this place the current one. 0 without an error if the list is unusual. */
static int move_to(Stamps *stamps, Py_ssize_t place)
{
    while (stamps->next_place == place) {
        stamps->current = stamps->next;
        if (!look_ahead(stamps))
            return 0;
    }
    return stamps->next_place < 0 || stamps->next_place > place;
}

static int put_all(Block *block, PyObject *values, PyObject *keys, PyObject *headers, Stamps *stamps)
{
    if (!look_ahead(stamps) || stamps->next_place != 0)
        return 0;
    stamps->base = stamps->next;
    for (Py_ssize_t place = 0; place < PyList_Size(values); place++) {
        Field key = {NULL, -1}, value;
        PyObject *own_headers;
        if (!move_to(stamps, place) || !field_of(PyList_GetItem(values, place), &value) ||
            (keys != Py_None && !field_of(PyList_GetItem(keys, place), &key)) ||
            !headers_at(headers, place, &own_headers))
            return 0;
        if (!put_record(block, stamps->current - stamps->base, place, key, value, own_headers))
            return 0;
    }
    return 1;
}

PyDoc_STRVAR(put_doc,
             "put(values, keys, headers, stamps, size) -> bytes | None\n--\n\n"
             "The records block of whole columns, about `size` bytes; None if they hold anything unusual.");

static PyObject *put(PyObject *module, PyObject *arguments)
{
    PyObject *values, *keys, *headers, *made = NULL;
    Stamps stamps = {0};
    Block block = {0};
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "O!OO!O!n:put", &PyList_Type, &values, &keys, &PyDict_Type, &headers, &PyList_Type,
                          &stamps.list, &size))
        return NULL;
    int is_fit = keys == Py_None || (PyList_Check(keys) && PyList_Size(keys) == PyList_Size(values));
    if (is_fit && make_room(&block, size > 64 ? (size_t)size : 64) && put_all(&block, values, keys, headers, &stamps))
        made = PyBytes_FromStringAndSize((const char *)block.data, (Py_ssize_t)block.used);
    PyMem_Free(block.data);
    if (made != NULL || PyErr_Occurred())
        return made;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"take", take, METH_VARARGS, take_doc},
                                {"put", put, METH_VARARGS, put_doc},
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "The loops over the records of a batch, compiled.", 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
