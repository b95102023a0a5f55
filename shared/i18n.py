"""The texts that people read, by key and language.

Comes in: gettext catalogs, `shared/locale/<locale>/LC_MESSAGES/turnfleet.po`, read once at start;
nothing is compiled beforehand. Goes out: texts. Composition roots call `load_texts` and hand
`Texts` on; pure rooms deal in keys. English is whole and stands in wherever a language lacks a
text. Anyone but a pure room may import it.
"""

import gettext
import io
from collections.abc import Iterator, Mapping
from pathlib import Path

from babel.core import negotiate_locale
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

DOMAIN = "turnfleet"
DEFAULT_LOCALE = "en"
LOCALE_DIR = Path(__file__).parent / "locale"


class Texts:
    """The catalogs of all languages.

    Args:
        catalogs: by locale, such as `en` or `pt_BR`; `DEFAULT_LOCALE` is among them.
    """

    __slots__ = ("_catalogs", "_chosen", "_keys")

    def __init__(self, catalogs: Mapping[str, gettext.GNUTranslations]) -> None:
        self._catalogs = dict(catalogs)
        self._chosen: dict[str, gettext.GNUTranslations] = {}
        default = self._catalogs[DEFAULT_LOCALE]
        self._keys = frozenset(key for key in _ids(default) if key)
        for catalog in self._catalogs.values():
            if catalog is not default:
                catalog.add_fallback(default)

    @property
    def locales(self) -> frozenset[str]:
        """The languages that have a catalog."""
        return frozenset(self._catalogs)

    @property
    def keys(self) -> frozenset[str]:
        """Every key that the English catalog has."""
        return self._keys

    def text(self, key: str, locale: str = DEFAULT_LOCALE, /, **values: object) -> str:
        """The text of a key in the nearest language, with values put in for `{name}`.

        Args:
            key: such as `failure.rate_limited`; one that no catalog has comes back as it is.
            locale: as Discord writes it (`en-US`, `pt-BR`, `de`), or as gettext does.
            values: what stands for the names in braces.
        """
        return self._catalog(locale).gettext(key).format_map(values)

    def count(self, key: str, n: int, locale: str = DEFAULT_LOCALE, /, **values: object) -> str:
        """The text of a key that depends on a number, which it may name as `{n}`."""
        return self._catalog(locale).ngettext(key, key, n).format_map({"n": n, **values})

    def _catalog(self, locale: str) -> gettext.GNUTranslations:
        if locale not in self._chosen:
            name = negotiate_locale([locale.replace("-", "_")], sorted(self._catalogs))
            self._chosen[locale] = self._catalogs[name or DEFAULT_LOCALE]
        return self._chosen[locale]


def _ids(catalog: gettext.GNUTranslations) -> Iterator[str]:
    """The keys of a catalog; of a plural, gettext keeps one for each form."""
    for key in catalog._catalog:  # type: ignore[attr-defined]
        yield key[0] if isinstance(key, tuple) else key


def load_texts(directory: Path = LOCALE_DIR) -> Texts:
    """Reads every catalog under `directory`.

    Raises:
        OSError: the English catalog cannot be read.
        babel.messages.pofile.PoFileError: a catalog is no valid `.po` file.
    """
    paths = sorted(directory.glob(f"*/LC_MESSAGES/{DOMAIN}.po"))
    return Texts({path.parts[-3]: _read(path) for path in paths})


def _read(path: Path) -> gettext.GNUTranslations:
    """A `.po` file as gettext reads it: compiled in memory, fuzzy entries left out."""
    compiled = io.BytesIO()
    with path.open("rb") as file:
        write_mo(compiled, read_po(file, locale=path.parts[-3], abort_invalid=True))
    compiled.seek(0)
    return gettext.GNUTranslations(compiled)
