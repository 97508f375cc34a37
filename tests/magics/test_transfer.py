"""Variables that travel between a notebook and a sandbox."""

from __future__ import annotations

import io
import struct

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pytest

from sbx_jupyter.magics import tables
from sbx_jupyter.magics.errors import MagicError


def stream_of(table, **options):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_plain_values_go_there_and_back(kernel):
    kernel.run("given = {'a': [1, 2.5, None, True], 'b': 'text \\' quoted \\n'}")

    cell = kernel.run("%%sbx -i given -o back,count\nback = [given, given['a']]\ncount = 10 ** 30")

    assert cell.error is None, cell.error
    assert kernel.value("back == [given, given['a']]") == "True"
    assert kernel.value("count == 10 ** 30") == "True"


def test_values_go_to_bash_and_javascript(kernel):
    kernel.run('word = "it\'s"\nnumbers = [1, 2, 3]')

    assert kernel.run("%%sbx bash -i word\necho $word").stdout == "it's\n"
    added = kernel.run("%%sbx js -i numbers\nconsole.log(numbers.reduce((a, b) => a + b))")
    assert added.stdout == "6\n"


def test_frames_series_and_arrays_go_there_and_back(kernel):
    kernel.run(
        "import pandas as pd, numpy as np\n"
        "frame = pd.DataFrame({'n': [1, 2], 's': ['a', None],"
        " 'd': pd.to_datetime(['2024-01-01', '2024-01-02'])}, index=['x', 'y'])\n"
        "series = frame['n'].rename('renamed')\narray = np.arange(6, dtype='int16').reshape(2, 3)"
    )

    cell = kernel.run(
        "%%sbx -i frame,series,array -o frame2,series2 -o array2\n"
        "frame2, series2, array2 = frame, series * 2, array + 1"
    )

    assert cell.error is None, cell.error
    kernel.run("pd.testing.assert_frame_equal(frame, frame2)")
    kernel.run("pd.testing.assert_series_equal(series * 2, series2)")
    assert kernel.value("(array2.tolist(), array2.dtype.str)") == "([[1, 2, 3], [4, 5, 6]], '<i2')"
    assert kernel.run("%%sbx bash\nls -A /tmp | grep -c arrow || true").stdout == "0\n"


def test_files_travel_by_their_paths_and_never_into_the_working_directory(kernel, tmp_path):
    (tmp_path / "data.txt").write_text("content")
    kernel.run(f"import pathlib\ndata = pathlib.Path({str(tmp_path / 'data.txt')!r})")

    cell = kernel.run(
        "%%sbx -i data -o json\nimport pathlib\n"
        "json = pathlib.Path('json.py')\n_ = json.write_text(data.read_text() + '!')"
    )

    assert cell.error is None, cell.error
    assert kernel.value("json.read_text()") == "'content!'"
    assert kernel.value("json.parent == pathlib.Path.cwd()") == "False"


def test_a_file_that_is_too_large_behind_a_link_leaves_nothing(kernel, tmp_path):
    kernel.run(
        "import tempfile, sbx_jupyter.magics.transfer as transfer\n"
        f"transfer.MAX_FILE, most = 1000, transfer.MAX_FILE\ntempfile.tempdir = {str(tmp_path)!r}"
    )
    cells = [
        kernel.run(
            "%%sbx -o got\nimport os, pathlib\ngot = pathlib.Path('link')\n"
            "_ = pathlib.Path('target').write_bytes(b'x' * SIZE)\n"
            "got.is_symlink() or got.symlink_to('target')".replace("SIZE", size)
        )
        for size in ("1001", "1000")
    ]
    kernel.run("transfer.MAX_FILE, tempfile.tempdir = most, None")

    assert "-o got: the file is larger than 1 kB; %sbx get copies it" in cells[0].error
    assert cells[1].error is None
    assert [path.name for path in tmp_path.glob("sbx-*/*")] == ["link"]
    assert len(list(tmp_path.glob("sbx-*"))) == 1


@pytest.mark.parametrize(
    ("before", "cell", "said"),
    [
        ("x = object()", "%%sbx -i x\n1", "-i x: a object cannot travel"),
        ("x = {1, 2}", "%%sbx -i x\n1", "-i x: a set cannot travel"),
        ("x = {1: 2}", "%%sbx -i x\n1", "-i x: a dict cannot travel"),
        ("x = 'x' * 9_000_000", "%%sbx -i x\n1", "9 MB as JSON"),
        ("x = float('nan')", "%%sbx js -i x\n1", "not finite"),
        ("1", "%%sbx -i nowhere\n1", "there is no such variable in this notebook"),
        ("1", "%%sbx -o nowhere\n1", "name 'nowhere' is not defined"),
        ("1", "%%sbx -o x\nx = object()", "-o x: a object is no plain value"),
        ("1", "%%sbx bash -o x\nx=1", "-o fetches variables of Python, not of bash"),
        ("1", "%%sbx -o x\nx = []\nx.append(x)", "-o x: a list is no plain value"),
        ("1", "%%sbx -i x;y\n1", "no name of a variable"),
    ],
)
def test_what_cannot_travel_is_said_in_one_line(kernel, before, cell, said):
    kernel.run(before)

    ran = kernel.run(cell)

    assert ran.error.startswith("sbx: ")
    assert said in ran.error
    assert "\n" not in ran.error


def test_a_sandbox_that_lies_about_a_variable_gets_nowhere(kernel):
    forged = (
        "import IPython.display as d\nreal = d.display\n"
        "def fake(bundle, **options):\n"
        "    bundle['application/vnd.sbx-jupyter.value+json'] = ANSWER\n"
        "    real(bundle, **options)\nd.display = fake\nx = 1"
    )
    try:
        for answer, said in [
            ("{'name': 'x', 'table': '/etc/passwd'}", "not"),
            ("{'name': 'x', 'json': '[' * 100000}", "is not JSON"),
            ("{'name': 'other', 'json': '1'}", "did not answer"),
            ("{'name': 'x', 'file': '/no/such/file'}", "not"),
            ("[1]", "did not answer"),
        ]:
            cell = kernel.run(f"%%sbx -o x\n{forged.replace('ANSWER', answer)}")
            assert cell.error.startswith("sbx: "), answer
            assert said in cell.error, (answer, cell.error)
            kernel.run("%%sbx\nd.display = real")
    finally:
        kernel.run("%sbx create")


def test_tables_need_pyarrow_and_say_so(kernel):
    kernel.run("import sys, pandas as pd\nframe = pd.DataFrame({'n': [1]})")
    kernel.run("sys.modules['pyarrow'] = None")

    cell = kernel.run("%%sbx -i frame\n1")
    kernel.run("del sys.modules['pyarrow']")

    assert "travel with pyarrow, which this kernel has not" in cell.error
    assert "\n" not in cell.error


def test_an_old_pyarrow_is_refused(monkeypatch):
    monkeypatch.setattr(pa, "__version__", "14.0.0")

    with pytest.raises(MagicError, match=r"install 14\.0\.1 or newer"):
        tables.decode_table(b"")


def test_a_compressed_table_is_refused():
    table = pa.table({"n": [0] * 10_000})

    assert tables.decode_table(stream_of(table)).num_rows == 10_000
    for codec in ("lz4", "zstd"):
        with pytest.raises(MagicError, match="compressed"):
            tables.decode_table(stream_of(table, compression=codec))


def test_a_compressed_dictionary_is_refused():
    words = pa.array([f"word {n}" for n in range(1000)]).dictionary_encode()
    table = pa.table({"w": words})

    assert tables.decode_table(stream_of(table)).num_rows == 1000
    with pytest.raises(MagicError, match="compressed"):
        tables.decode_table(stream_of(table, compression="zstd"))


class OwnType(pa.ExtensionType):
    def __init__(self):
        super().__init__(pa.int64(), "own")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, _storage, _raw):
        raise AssertionError("code of an extension type ran")


def test_extension_types_are_refused_known_or_not():
    storage = pa.array([1, 2])
    unknown = pa.table({"x": pa.ExtensionArray.from_storage(OwnType(), storage)})
    known = pa.table({"x": pa.ExtensionArray.from_storage(pa.bool8(), storage.cast("int8"))})

    for table in (unknown, known):
        with pytest.raises(MagicError, match="extension type"):
            tables.decode_table(stream_of(table))


@pytest.mark.parametrize(
    "kind",
    [pa.run_end_encoded(pa.int32(), pa.int64()), pa.string_view(), pa.list_view(pa.int8())],
    ids=str,
)
def test_types_that_grow_are_refused(kind):
    with pytest.raises(MagicError, match="which is refused"):
        tables.decode_table(stream_of(pa.schema({"x": kind}).empty_table()))


@pytest.mark.parametrize("seed", range(20))
def test_damaged_streams_are_refused_in_words(seed):
    raw = bytearray(stream_of(pa.Table.from_pandas(pd.DataFrame({"n": range(50), "s": "x"}))))
    random = np.random.default_rng(seed)
    for at in random.integers(0, len(raw), 20):
        raw[at] = random.integers(0, 256)

    try:
        tables.decode_table(bytes(raw[: random.integers(1, len(raw))]))
    except MagicError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("raw", [b"", b"\0" * 16, struct.pack("<I", 0xFFFFFFFF) * 10, b"not arrow"])
def test_what_is_no_stream_is_refused(raw):
    with pytest.raises(MagicError, match="damaged"):
        tables.decode_table(raw)
