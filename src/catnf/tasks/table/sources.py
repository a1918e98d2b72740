"""Where the credit data come from, and their codes in words."""

from __future__ import annotations

from pathlib import Path

from catnf.errors import StorageError
from catnf.storage import write_text
from catnf.tasks.download import Progress, PublicFile, fetch
from catnf.tasks.files import data_folders, find_data

FILE = "tabular/credit-g.csv"
COMMAND = "catnf data table credit"
"""What makes the file."""

PUBLISHED = PublicFile(
    "tabular/german.data",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/statlog/german/german.data",
    "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
)
"""The data as their donor wrote them: codes such as `A34`, that is value 4 of attribute 3."""

ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "checking_status": ("<0", "0<=X<200", ">=200", "no checking"),
    "duration": (),
    "credit_history": (
        "no credits/all paid",
        "all paid",
        "existing paid",
        "delayed previously",
        "critical/other existing credit",
    ),
    "purpose": (
        "new car",
        "used car",
        "furniture/equipment",
        "radio/tv",
        "domestic appliance",
        "repairs",
        "education",
        "vacation",
        "retraining",
        "business",
        "other",
    ),
    "credit_amount": (),
    "savings_status": ("<100", "100<=X<500", "500<=X<1000", ">=1000", "no known savings"),
    "employment": ("unemployed", "<1", "1<=X<4", "4<=X<7", ">=7"),
    "installment_commitment": (),
    "personal_status": (
        "male div/sep",
        "female div/dep/mar",
        "male single",
        "male mar/wid",
        "female single",
    ),
    "other_parties": ("none", "co applicant", "guarantor"),
    "residence_since": (),
    "property_magnitude": ("real estate", "life insurance", "car", "no known property"),
    "age": (),
    "other_payment_plans": ("bank", "stores", "none"),
    "housing": ("rent", "own", "for free"),
    "existing_credits": (),
    "job": (
        "unemp/unskilled non res",
        "unskilled resident",
        "skilled",
        "high qualif/self emp/mgmt",
    ),
    "num_dependents": (),
    "own_telephone": ("none", "yes"),
    "foreign_worker": ("yes", "no"),
    "class": ("good", "bad"),
}
"""The names that OpenML gives to the attributes, in the order of the file, and to their values, in that of
their codes; attributes without values are numbers."""

_FROM_ZERO = ("credit_history", "purpose")  # the codes of the others start at 1


def prepare_credit(
    progress: Progress = lambda name, done, total: None, source: PublicFile = PUBLISHED
) -> Path:
    """The path of the credit data as CSV; made from the published file where no data folder has them.

    Args:
        progress: told about the download.
        source: the published file.
    """
    found = find_data(FILE)
    if found is not None:
        return found
    published = fetch(source, progress)
    target = data_folders()[0] / FILE
    write_text(target, in_words(published))
    return target


def in_words(path: Path) -> str:
    """The published file as CSV, its codes replaced by words."""
    lines = [",".join(ATTRIBUTES)]
    try:
        for line in path.read_text(encoding="ascii").splitlines():
            cells = zip(line.split(), ATTRIBUTES.items(), range(1, len(ATTRIBUTES) + 1), strict=True)
            lines.append(",".join(_word(cell, name, place, values) for cell, (name, values), place in cells))
    except (OSError, ValueError, IndexError) as error:
        raise StorageError(f"{path} is damaged; remove it, so that it is downloaded again.") from error
    return "\n".join(lines) + "\n"


def _word(cell: str, name: str, place: int, values: tuple[str, ...]) -> str:
    if not values:
        return str(int(cell))
    prefix = "" if name == "class" else f"A{place}"
    code = int(cell.removeprefix(prefix)) - (name not in _FROM_ZERO)
    if code < 0 or not cell.startswith(prefix):
        raise ValueError(cell)
    return values[code]
