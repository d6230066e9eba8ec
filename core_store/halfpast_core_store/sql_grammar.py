"""The grammar of filter expressions, and what is wrong where one does not follow it."""

from collections.abc import Callable
from typing import Final

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from . import sql_terms as terms
from .errors import InvalidFilter
from .sql_terms import Condition, Operand, Part

GRAMMAR: Final = r"""
start: any_of

?any_of: all_of (_OR all_of)*
?all_of: negatable (_AND negatable)*
?negatable: _NOT negatable -> negation
    | test
?test: operand
    | operand COMPARISON operand -> comparison
    | operand _IS NULL -> is_null
    | operand _IS _NOT NULL -> is_not_null
    | operand _BETWEEN operand _AND operand -> between
    | operand _NOT _BETWEEN operand _AND operand -> not_between
    | operand _IN "(" value ("," value)* ")" -> is_in
    | operand _NOT _IN "(" value ("," value)* ")" -> is_not_in
    | operand TEXT_TEST text -> text_test
    | operand _NOT TEXT_TEST text -> not_text_test
?operand: NAME -> property
    | value
    | "(" any_of ")"
?value: text
    | NUMBER -> number
    | TRUTH -> truth
    | NULL -> null
text: STRING

_OR.2: /OR{end}/i
_AND.2: /AND{end}/i
_NOT.2: /NOT{end}/i
_IS.2: /IS{end}/i
NULL.2: /NULL{end}/i
_BETWEEN.2: /BETWEEN{end}/i
_IN.2: /IN{end}/i
TRUTH.2: /(TRUE|FALSE){end}/i
TEXT_TEST.2: /(CONTAINS|STARTSWITH|ENDSWITH){end}/i
COMPARISON: "<>" | "<=" | ">=" | "=" | "<" | ">"
NUMBER: /[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[lL]?/
STRING: /'([^']|'')*'/
NAME: /[A-Za-z_$]([A-Za-z0-9_$.-]*[A-Za-z0-9_$])?/

%ignore /[ \t\r\n\f]+/
""".replace("{end}", r"(?![A-Za-z0-9_$]|[.-][A-Za-z0-9_$])")

HOLDS: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}
WANTED: Final = (
    (("NAME",), "a property or a value"),
    (("NUMBER",), "a value"),
    (("STRING",), "text in single quotes"),
    (("COMPARISON",), "a comparison such as =, > or IN"),
    (("_AND", "_OR"), "AND or OR"),
    (("NULL",), "NULL"),
    (("_IN",), "IN, BETWEEN or CONTAINS"),
    (("RPAR",), "')'"),
    (("LPAR",), "'('"),
    (("COMMA",), "','"),
)
"""What may come, the first that fits first."""
STRANGE: Final = {
    "'": "the text that begins here has no end",
    '"': "text stands in single quotes",
    "!": "not equal is written <>",
    "+": "there is no arithmetic",
    "-": "there is no arithmetic",
    "*": "there is no arithmetic",
    "/": "there is no arithmetic",
    "%": "there is no arithmetic",
}


class Builder(Transformer[Token, Condition]):
    """Makes conditions while the text is read. Each method is a rule of the grammar."""

    def start(self, parts: list[Part]) -> Condition:
        return terms.condition(parts[0])

    def any_of(self, parts: list[Part]) -> Condition:
        return terms.any_of([terms.condition(part) for part in parts])

    def all_of(self, parts: list[Part]) -> Condition:
        return terms.all_of([terms.condition(part) for part in parts])

    def negation(self, parts: list[Part]) -> Condition:
        return terms.negation(terms.condition(parts[0]))

    def comparison(self, parts: tuple[Part, Token, Part]) -> Condition:
        left, sign, right = parts
        return terms.comparison(terms.operand(left), str(sign), terms.operand(right))

    def is_null(self, parts: list[Part]) -> Condition:
        return terms.is_null(terms.operand(parts[0]))

    def is_not_null(self, parts: list[Part]) -> Condition:
        return terms.negation(self.is_null(parts))

    def between(self, parts: list[Part]) -> Condition:
        return terms.between(*map(terms.operand, parts))

    def not_between(self, parts: list[Part]) -> Condition:
        return terms.negation(self.between(parts))

    def is_in(self, parts: list[Part]) -> Condition:
        value, *elements = map(terms.operand, parts)
        return terms.is_in(value, elements)

    def is_not_in(self, parts: list[Part]) -> Condition:
        return terms.negation(self.is_in(parts))

    def text_test(self, parts: tuple[Part, Token, Operand]) -> Condition:
        value, word, text = parts
        return terms.text_test(terms.operand(value), HOLDS[word.upper()], text)

    def not_text_test(self, parts: tuple[Part, Token, Operand]) -> Condition:
        return terms.negation(self.text_test(parts))

    def property(self, tokens: list[Token]) -> Operand:
        return Operand(place_of(tokens[0]), str(tokens[0]))

    def text(self, tokens: list[Token]) -> Operand:
        text = str(tokens[0])[1:-1].replace("''", "'")
        return Operand(place_of(tokens[0]), "", text)

    def number(self, tokens: list[Token]) -> Operand:
        number = terms.number_of(tokens[0].rstrip("lL"))
        return Operand(place_of(tokens[0]), "", number)

    def truth(self, tokens: list[Token]) -> Operand:
        return Operand(place_of(tokens[0]), "", tokens[0].upper() == "TRUE")

    def null(self, tokens: list[Token]) -> Operand:
        return Operand(place_of(tokens[0]), "")


PARSER: Final = Lark(GRAMMAR, parser="lalr", lexer="basic", transformer=Builder())


def parse(text: str) -> Condition:
    """What an expression asks for. Raises InvalidFilter."""
    try:
        # With a transformer it gives what that makes, not a tree.
        made: object = PARSER.parse(text)  # pyright: ignore[reportUnknownMemberType]
    except UnexpectedCharacters as error:
        found: object = error.pos_in_stream  # pyright: ignore[reportUnknownMemberType]
        position = found if isinstance(found, int) else 0
        char = text[position]
        reason = STRANGE.get(char, f"{char!r} means nothing here")
        raise InvalidFilter(position, reason) from None
    except UnexpectedToken as error:
        raise unexpected(text, error) from None
    assert isinstance(made, Condition)
    return made


def unexpected(text: str, error: UnexpectedToken) -> InvalidFilter:
    """A part that is right in itself, but not here."""
    token: Token = error.token  # pyright: ignore[reportUnknownMemberType]
    is_end = token.type == "$END"
    position = len(text) if is_end else place_of(token)
    expected = set(error.accepts or error.expected)
    wanted = [words for names, words in WANTED if expected.intersection(names)]
    hope = wanted[0] if wanted else "nothing more"
    found = "the filter ends" if is_end else f"{str(token)!r} stands there"
    return InvalidFilter(position, f"expected {hope}, but {found}")


def place_of(token: Token) -> int:
    return token.start_pos or 0
