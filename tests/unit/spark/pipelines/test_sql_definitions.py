"""Definitions in SQL: what stands where, and plain materialized views as temporary ones."""

from __future__ import annotations

from ottla.spark.pipelines.sql_definitions import other_statements, parse_sql, with_plain_views_temporary

VIEW = "CREATE MATERIALIZED VIEW sums\nCOMMENT 'what; each AS (x'\nAS SELECT a AS b -- AS c;\nFROM orders"


def test_words_in_comments_and_texts_are_not_the_statements() -> None:
    (found,) = parse_sql(f"-- CREATE FLOW no AS INSERT INTO x SELECT 1;\n/* CREATE ; */ {VIEW};")

    assert (found.kind, found.name, found.is_plain) == ("materialized view", "sums", True)
    assert found.query == "SELECT a AS b -- AS c;\nFROM orders"


def test_a_query_begins_after_the_header_of_its_statement() -> None:
    found = parse_sql(
        "CREATE STREAMING TABLE raw;\n"
        "CREATE FLOW fill COMMENT 'x' AS INSERT INTO raw BY NAME SELECT * FROM STREAM a;\n"
        "CREATE FLOW first AS INSERT INTO ONCE raw SELECT 1;\n"
        "CREATE FLOW cdc AS AUTO CDC INTO raw FROM STREAM a KEYS (x) SEQUENCE BY y;\n"
        "CREATE TEMPORARY VIEW v AS WITH w AS (SELECT 2) SELECT * FROM w"
    )

    assert [(each.name, each.target, each.query) for each in found] == [
        ("raw", "raw", None),
        ("fill", "raw", "SELECT * FROM STREAM a"),
        ("first", "raw", None),
        ("cdc", "cdc", None),
        ("v", "v", "WITH w AS (SELECT 2) SELECT * FROM w"),
    ]


def test_a_view_that_asks_for_more_than_a_comment_is_not_plain() -> None:
    plain = [
        parse_sql(f"CREATE MATERIALIZED VIEW {header} AS SELECT 1")[0].is_plain
        for header in ("v", "`v w`", 'v COMMENT "x"', "v (a INT)", "v USING delta", "s.v", "v CLUSTER BY (a)")
    ]

    assert plain == [True, True, True, False, False, False, False]


def test_plain_views_become_temporary_ones_and_keep_their_lines() -> None:
    other = "CREATE OR REFRESH MATERIALIZED VIEW v (a INT) AS SELECT 1;"
    text = f"{VIEW};\n{other}"

    changed = with_plain_views_temporary(text)

    assert changed.startswith("CREATE TEMPORARY VIEW sums AS")
    assert changed.endswith(f"SELECT a AS b -- AS c;\nFROM orders;\n{other}")
    assert changed.index("SELECT a") - changed.index("CREATE") < text.index("SELECT a")
    assert changed.count("\n") == text.count("\n")


def test_statements_that_define_nothing_are_found() -> None:
    assert other_statements(f"SET a = 1;\n{VIEW};\n;\nUSE s;") == [1, 7]
