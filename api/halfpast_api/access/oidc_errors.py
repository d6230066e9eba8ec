"""What can go wrong with an identity provider.

OidcError
├── ProviderUnavailable   it does not answer, or not in a way that can be used
├── BadToken              what was shown is not a token that counts here
└── OidcMissing           this installation lacks what it takes
"""


class OidcError(Exception):
    """Base of all. No text holds a token."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class ProviderUnavailable(OidcError):
    """Nobody can be let in now who comes by this provider."""


class BadToken(OidcError):
    """The reason says what is wrong with it."""


class OidcMissing(OidcError):
    """The reason says what to install."""
