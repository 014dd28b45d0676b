#!/usr/bin/env python3
"""Tests of ci/mutants: its operators on small texts, and the whole of it on a project of one source."""

import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import shutil
import subprocess
import sys
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "ci"))
import mutant_operators
from small_project import SmallProject

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(small CXX)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
add_library(lockstep_diff STATIC harness/diff/smaller.cc)
add_executable(unit_tests tests/smaller_test.cc)
target_link_libraries(unit_tests lockstep_diff)
"""
SMALLER = "bool is_smaller(int a, int b) {\n  return a < b;\n}\n"
# As a test that does not try equal numbers.
TEST = "bool is_smaller(int a, int b);\nint main() { return is_smaller(1, 2) && !is_smaller(2, 1) ? 0 : 1; }\n"
FILES = {"CMakeLists.txt": PROJECT, ".gitignore": "build/\n", "harness/diff/smaller.cc": SMALLER,
         "tests/smaller_test.cc": TEST, "ci/mutants.csv": "file,line,becomes,reason\n"}


def load(root):
    loader = importlib.machinery.SourceFileLoader("mutants", str(ROOT / "ci/mutants"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutants", loader))
    loader.exec_module(module)
    module.ROOT = root
    return module


def changes(text, operator=None, file="harness/diff/a.cc"):
    """What lines become."""
    return [mutant.after for mutant in mutant_operators.mutants_of(file, text) if operator in (None, mutant.operator)]


def in_body(statement, operator):
    return [line.removeprefix("void f() { ").removesuffix(" }")
            for line in changes("void f() { %s }\n" % statement, operator)]


def in_python(text, operator):
    return changes(text, operator, file="harness/watch/python/_lockstep/a.py")


class Operators(unittest.TestCase):
    def test_comparisons_are_exchanged(self):
        for one, other in (("<", "<="), (">", ">="), ("==", "!=")):
            self.assertEqual(in_body("x = a %s b;" % one, "comparison"), ["x = a %s b;" % other])
            self.assertEqual(in_body("x = a %s b;" % other, "comparison"), ["x = a %s b;" % one])
            self.assertEqual(in_python("x = a %s b\n" % one, "comparison"), ["x = a %s b" % other])

    def test_constants_change_their_value(self):
        self.assertEqual(in_body("x = 4;", "constant"), ["x = (2 * 4);", "x = (4 / 2);"])
        self.assertEqual(in_body("x = 1'000u;", "constant"), ["x = (2 * 1'000u);", "x = (1'000u / 2);"])
        self.assertEqual(in_body("x = 1e-3;", "constant"), ["x = (2 * 1e-3);", "x = (1e-3 / 2);"])
        self.assertEqual(in_body("x = 0;", "constant"), ["x = 1;"])
        self.assertEqual(in_body("x = 1.0;", "constant"), ["x = 0.0;"])
        self.assertEqual(in_body("x = true;", "constant"), ["x = false;"])
        self.assertEqual(in_python("x = 3\n", "constant"), ["x = (2 * 3)", "x = (3 // 2)"])
        self.assertEqual(in_python("x = False\n", "constant"), ["x = True"])

    def test_whole_numbers_are_one_more_and_one_less(self):
        self.assertEqual(in_body("x = 4;", "boundary"), ["x = (4 + 1);", "x = (4 - 1);"])
        self.assertEqual(in_body("x = 0xffu;", "boundary"), ["x = (0xffu + 1);", "x = (0xffu - 1);"])
        self.assertEqual(in_body("x = 1;", "boundary"), ["x = (1 + 1);"])  # 0 is a change of the constant
        self.assertEqual(in_body("x = 0;", "boundary"), ["x = (0 - 1);"])
        self.assertEqual(in_body("x = .5;", "boundary"), [])

    def test_conditions_are_negated_and_joined_the_other_way(self):
        self.assertEqual(in_body("x = a && b;", "condition"), ["x = a || b;"])
        self.assertEqual(in_body("x = !a;", "condition"), ["x = a;"])
        self.assertEqual(in_body("if (a(b)) c();", "condition"), ["if (!(a(b))) c();"])
        self.assertEqual(in_body("if (auto a = b; a > 0) c();", "condition"), ["if (auto a = b; !(a > 0)) c();"])
        self.assertEqual(in_python("if a[1:]: b()\n", "condition"), ["if not (a[1:]): b()"])
        self.assertEqual(in_python("x = a and not b\n", "condition"), ["x = a or not b", "x = a and b"])

    def test_statements_are_left_out(self):
        for statement in ("call();", "a.b->call({1, 2}, [] { return 3; });", "x = 1;", "x[2] += 3;", "++x;", "x++;",
                          "*out = x;", "break;"):
            self.assertEqual(in_body(statement, "statement"), [";"], statement)
        self.assertEqual(in_body("if (a) call(); else x = 1;", "statement"),
                         ["if (a) ; else x = 1;", "if (a) call(); else ;"])
        self.assertEqual(in_body("for (int i = 0; i < 3; ++i) call();", "statement"), ["for (int i = 0; i < 3; ++i) ;"])
        self.assertEqual(in_python("if a:\n    self.b = c(\n        d)\n", "statement"), ["pass"])

    def test_what_is_no_code_stays(self):
        self.assertEqual(changes('// a < 1\n/* b\n < 2 */\n#include <array>\n#define A \\\n 3 < 4\n'), [])
        self.assertEqual(changes('auto a = "b < 1 \\" c < 2", d = R"x(e < 3)" )x", f = \'4\';\n'), [])
        self.assertEqual(changes("static_assert(sizeof(int) == 4 && true);\n"), [])
        self.assertEqual(in_python('"""a < 1"""\nx = "b < 2"  # c < 3\n', "comparison"), [])

    def test_what_only_looks_like_an_operator_stays(self):
        self.assertEqual(changes("template <class A>\nvoid f(std::vector<A> a, A&& b, std::map<A, B<A>>& c);\n"), [])
        self.assertEqual(changes("bool operator<(const A& a, const B& b);\n"), [])
        self.assertEqual(changes("auto operator<=>(const A&) const = default;\n"), [])
        self.assertEqual(in_python("x = a is not b, a not in b\n", "condition"), [])

    def test_declarations_are_no_statements(self):
        for statement in ("int x;", "int x = y;", "auto x = call();", "std::vector<int> x(y);", "return call();",
                          "using a::b;", "throw call();"):
            self.assertEqual(in_body(statement, "statement"), [], statement)
        self.assertEqual(changes("class A {\n  A();\n  void b();\n};\n", "statement"), [])
        self.assertEqual(in_body("if (auto x = call()) x->y();", "condition"), [])
        self.assertEqual(in_body("if constexpr (x) y();", "condition"), [])

    def test_a_header_has_only_those_of_its_bodies_and_its_constants(self):
        header = "struct A {\n  int b = 2;\n  int c() { return 0; }\n};\ninline constexpr int kD = 0;\n"
        self.assertEqual(changes(header, "constant", file="harness/diff/a.h"),
                         ["int c() { return 1; }", "inline constexpr int kD = 1;"])

    def test_an_id_stays_while_its_line_does(self):
        ids = [{mutant.id for mutant in mutant_operators.mutants_of("harness/diff/a.cc", text)}
               for text in ("int a = 3;\n", "int b;\n\nint a = 3;\n", "int a = 3 ;\n")]
        self.assertEqual(ids[0], ids[1])
        self.assertTrue(ids[0].isdisjoint(ids[2]))

    def test_equal_lines_have_mutants_of_their_own(self):
        mutants = list(mutant_operators.mutants_of("harness/diff/a.cc", "void f() {\n  a();\n  a();\n}\n"))
        self.assertEqual([mutant.line for mutant in mutants], [2, 3])
        self.assertEqual(len({mutant.id for mutant in mutants}), 2)


class Mutants(SmallProject):
    files = FILES

    def setUp(self):
        super().setUp()
        shutil.copy(ROOT / "ci/mutants.cmake", self.root / "ci")
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)

    def mutated(self, *arguments):
        """What the command says, with the text that it exits with, if any."""
        module, said = load(self.root), io.StringIO()
        module.FOLDERS = {"harness/diff": ("unit_tests",)}
        with unittest.mock.patch.object(sys, "argv", ["mutants", *arguments]), contextlib.redirect_stdout(said):
            try:
                module.main()
            except SystemExit as end:
                return said.getvalue() + str(end.code)
        return said.getvalue()

    def test_a_survivor_is_told_and_the_sources_stay(self):
        said = self.mutated()
        self.assertIn("comparison: harness/diff/smaller.cc:2\n  - return a < b;\n  + return a <= b;", said)
        self.assertIn("1 mutants of seed 0: 0 killed, 1 survived, 0 explained; 0 more did not compile", said)
        self.assertIn("0.0 % were killed, and at least 90 % are to be", said)
        for name, text in FILES.items():
            self.assertEqual((self.root / name).read_text(encoding="utf-8"), text)
            if (self.root / "build/mutants/tree" / name).exists():
                self.assertEqual((self.root / "build/mutants/tree" / name).read_text(encoding="utf-8"), text)

    def test_a_test_that_fails_kills(self):
        self.write("tests/smaller_test.cc", TEST.replace("return is", "if (is_smaller(1, 1)) return 1;\n  return is"))
        said = self.mutated()
        self.assertIn("killed by unit_tests", said)
        self.assertIn("1 mutants of seed 0: 1 killed, 0 survived", said)

    def test_a_test_without_an_end_kills(self):
        self.write("tests/smaller_test.cc", TEST.replace("return is", "while (is_smaller(1, 1)) {}\n  return is"))
        module = load(self.root)
        module.FOLDERS = {"harness/diff": ("unit_tests",)}
        suites = module.Suites(module.Tree(self.root))
        suites.prepare(["unit_tests"])
        suites.seconds["unit_tests"] = -1.8  # a limit of one second
        mutant = next(mutant_operators.mutants_of("harness/diff/smaller.cc", SMALLER))
        self.assertEqual(module.outcome_of(mutant, suites.tree, suites), "killed by unit_tests")

    def test_one_that_does_not_compile_is_drawn_again(self):
        self.write("harness/diff/smaller.cc", "int values[1] = {5};\n" + SMALLER)
        said = self.mutated("--number", "5")
        self.assertIn("not compiling", said)  # an array of no element for one value
        self.assertIn("0 killed, 5 survived, 0 explained; 1 more did not compile", said)

    def test_an_explained_one_is_not_run(self):
        explained = FILES["ci/mutants.csv"] + "harness/diff/smaller.cc,return a < b;,return a <= b;,%s\n"
        self.write("ci/mutants.csv", explained % "never asked of equal numbers")
        self.assertIn("0 killed, 0 survived, 1 explained", self.mutated("--least", "0"))
        self.write("ci/mutants.csv", explained % "")
        self.assertIn("no mutant, or no reason, for: harness/diff/smaller.cc: return a < b;", self.mutated())
        self.write("ci/mutants.csv", explained.replace("a < b", "b < a") % "of another line")
        self.assertIn("no mutant, or no reason, for: harness/diff/smaller.cc: return b < a;", self.mutated())

    def test_the_draw_of_a_seed_is_the_same_again(self):
        self.write("harness/diff/smaller.cc", "int values[] = {3, 4, 5, 6, 7};\n" + SMALLER)
        self.assertEqual(self.mutated("--list"), self.mutated("--list"))
        self.assertNotEqual(self.mutated("--list"), self.mutated("--list", "--seed", "1"))
        self.assertEqual(len(self.mutated("--list", "--number", "2").split("\n")), 7)
        self.assertEqual(self.mutated("--list", "--paths", "harness/judge").strip(), "")

    def test_says_how_many_it_had_no_time_for(self):
        self.assertIn("1 mutants are left, because -1 s are over", self.mutated("--within", "-1"))

    def test_two_runs_do_not_share_a_build(self):
        tree = load(self.root).Tree(self.root)
        self.assertIn("another run uses build/mutants", self.mutated())
        tree.lock.close()
        self.assertIn("1 survived", self.mutated())

    def test_tests_that_fail_by_themselves_are_an_error(self):
        self.write("tests/smaller_test.cc", TEST.replace("? 0 : 1", "? 1 : 0"))
        self.assertIn("without a mutant, unit_tests fails", self.mutated())

    def test_every_folder_has_mutants_and_every_reason_its_own(self):
        module = load(ROOT)
        draw = module.Draw(ROOT, [], 0)
        self.assertEqual({module.folder_of(mutant) for mutant in draw.mutants}, set(module.FOLDERS))
        self.assertEqual(len(draw.by_id), len(draw.mutants))


if __name__ == "__main__":
    unittest.main()
