"""Tests that the rule on function length can fail: long functions are found anywhere, and other long code is not
reported."""

import unittest

import lengths

SHORT, LONG = 66, 69  # numbers of statements in function bodies of 68 and of 71 lines; a function may have 70 lines


def body(statements: int) -> str:
    return " {\n" + "  if (x) y();\n" * statements + "}\n"


class Lengths(unittest.TestCase):
    def found(self, text: str, name: str = "planted.cc") -> list[str]:
        return list(lengths.faults(name, text))

    def test_a_long_function_is_found_and_a_short_one_is_not(self):
        heads = (
            "void f()",
            "static coro::Task<void> Room::wait(Lane* lane, std::vector<int> of) const noexcept",
            "template <typename T>\nauto g(T t) -> decltype(t)",
            "Room::Room(int a)\n    : a_(a), b_{a}",
            "bool operator==(const A& a, const B& b)",
            "TEST(Room, HasAName)",
        )
        for head in heads:
            with self.subTest(head=head):
                self.assertEqual(self.found(f"namespace n {{\n{head}{body(SHORT)}}}\n"), [])
                self.assertEqual(len(self.found(f"namespace n {{\n{head}{body(LONG)}}}\n")), 1)

    def test_a_member_and_what_follows_a_macro_are_found(self):
        self.assertEqual(len(self.found(f"class A : public B {{\n public:\n  int f(){body(LONG)}}};\n")), 1)
        self.assertEqual(len(self.found(f"#define F(x) {{ x\n#if 1\nint f(){body(LONG)}#endif\n")), 1)

    def test_braces_in_comments_and_strings_do_not_count(self):
        text = 'void a() {\n  // {\n  say("}{", \'{\', R"({{{)");\n}\nvoid b()' + body(LONG)
        self.assertEqual([each.split(":")[2].split()[0] for each in self.found(text)], ["b"])

    def test_a_table_may_be_long(self):
        self.assertEqual(self.found("Specs all() {\n  return {\n" + '      {"name", 1},\n' * 90 + "  };\n}\n"), [])


if __name__ == "__main__":
    unittest.main()
