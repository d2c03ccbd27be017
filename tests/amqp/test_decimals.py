"""Decimal floating point in the binary integer encoding of IEEE 754-2008."""

from __future__ import annotations

import decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.decimals import decimal_from_bid, decimal_from_decimal128, decimal_to_bid, to_service_layout
from tandem.errors import DecodeError, EncodeError
from tests.markers import spec

LENGTHS = [4, 8, 16]
PRECISION = {4: 7, 8: 16, 16: 34}

# Decimal("1.0") and ("1") differ in their exponent, and so do their bytes.
NUMBERS = [
    ("00000000", "0E-101"),
    ("32800000", "0"),
    ("b2800000", "-0"),
    ("32800001", "1"),
    ("b2800001", "-1"),
    ("3200000f", "1.5"),
    ("2f8003e8", "0.001000"),
    ("5f8f4240", "1.000000E+96"),
    ("5f800001", "1E+90"),
    ("77f8967f", "9.999999E+96"),
    ("00000001", "1E-101"),
    # 8,388,608 = 2^23 is the first significand that does not fit behind a full exponent.
    ("6ca00000", "8388608"),
    ("32ffffff", "8388607"),
    ("6cb8967f", "9999999"),
    ("31c0000000000000", "0"),
    ("31a000000000000f", "1.5"),
    ("5fe38d7ea4c68000", "1.000000000000000E+384"),
    ("77fb86f26fc0ffff", "9.999999999999999E+384"),
    ("6c7386f26fc0ffff", "9999999999999999"),
    ("0000000000000001", "1E-398"),
    ("30400000000000000000000000000001", "1"),
    ("b03e000000000000000000000000000f", "-1.5"),
    ("00000000000000000000000000000001", "1E-6176"),
    ("5fffed09bead87c0378d8e63ffffffff", "9.999999999999999999999999999999999E+6144"),
    ("5ffe314dc6448d9338c15b0a00000000", "1.000000000000000000000000000000000E+6144"),
]

SPECIAL = [
    ("78000000", "Infinity"),
    ("f8000000", "-Infinity"),
    ("7c000000", "NaN"),
    ("fc000000", "-NaN"),
    ("7e000000", "sNaN"),
    ("7c00007b", "NaN123"),
    ("fe0f423f", "-sNaN999999"),
    ("7800000000000000", "Infinity"),
    ("fc00000000000001", "-NaN1"),
    ("78000000000000000000000000000000", "Infinity"),
    ("7c00314dc6448d9338c15b09ffffffff", "NaN999999999999999999999999999999999"),
]

# Wide enough for every decimal128.
WIDE = decimal.Context(prec=34, Emin=-6143, Emax=6144, traps=[])


@spec("amqp:1.6.13", "amqp:1.6.14", "amqp:1.6.15")
@pytest.mark.parametrize("raw, text", NUMBERS + SPECIAL)
def test_a_decimal_has_these_bytes(raw: str, text: str) -> None:
    octets = bytes.fromhex(raw)
    assert str(decimal_from_bid(octets)) == text
    assert decimal_to_bid(decimal.Decimal(text), len(octets)).hex() == raw


@pytest.mark.parametrize(
    "raw, text",
    [
        ("6cb89680", "0"),  # 10,000,000 in the long form of the significand
        ("ecb89680", "-0"),
        ("77ffffff", "0E+90"),
        ("6c7386f26fc10000", "0"),
        ("3041ed09bead87c0378d8e6400000000", "0"),  # 10^34 in the short form
        ("6c10000000000000000000000000000f", "0"),  # the long form of decimal128 is above 10^34 in any case
        ("780000ff", "Infinity"),  # bits that are ignored
        ("7dffffff", "NaN"),  # a payload of 1,048,575 and reserved bits
        ("7c0f4240", "NaN"),  # a payload of 1,000,000
    ],
)
def test_what_is_not_canonical_is_read_as_the_standard_says(raw: str, text: str) -> None:
    assert str(decimal_from_bid(bytes.fromhex(raw))) == text


@pytest.mark.parametrize(
    "text, length, equal",
    [
        ("10000000", 4, "1.000000E+7"),
        ("1.00000000", 4, "1.000000"),
        ("1E+91", 4, "1.0E+91"),
        ("1E+96", 4, "1.000000E+96"),
        ("1000E-103", 4, "1.0E-100"),
        ("0E-200", 4, "0E-101"),
        ("-0E+200", 4, "-0E+90"),
        ("1E+384", 8, "1.000000000000000E+384"),
        ("1E+6144", 16, "1.000000000000000000000000000000000E+6144"),
    ],
)
def test_zeros_move_between_digits_and_exponent_where_that_makes_a_number_fit(
    text: str, length: int, equal: str
) -> None:
    number = decimal.Decimal(text)
    result = decimal_from_bid(decimal_to_bid(number, length))
    assert result == number
    assert str(result) == equal


@pytest.mark.parametrize(
    "text, length, message",
    [
        ("12345678", 4, "12345678 does not fit in the 7 digits of decimal32; round it first"),
        ("1E-102", 4, "1E-102 does not fit in the 7 digits of decimal32"),
        ("1E-1000000", 16, "does not fit in the 34 digits of decimal128"),
        ("1E+97", 4, r"1E\+97 is beyond the largest exponent of decimal32, 90"),
        ("10000001E+90", 4, "does not fit in the 7 digits of decimal32"),
        ("10000000E+90", 4, "is beyond the largest exponent of decimal32, 90"),
        ("1E+1000000", 16, r"1E\+1000000 is beyond the largest exponent of decimal128, 6111"),
        ("NaN1000000", 4, "the payload of NaN1000000 has more than the 6 digits of decimal32"),
    ],
)
def test_a_number_that_would_have_to_be_rounded_is_an_encode_error(text: str, length: int, message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        decimal_to_bid(decimal.Decimal(text), length)


@pytest.mark.parametrize("length", [0, 3, 5, 17])
def test_other_lengths_are_a_decode_error(length: int) -> None:
    with pytest.raises(DecodeError, match=f"a decimal takes 4, 8 or 16 bytes, not {length}"):
        decimal_from_bid(bytes(length))


@given(st.sampled_from(LENGTHS), st.data())
def test_any_bytes_are_a_decimal_whose_canonical_bytes_mean_the_same(length: int, data: st.DataObject) -> None:
    number = decimal_from_bid(data.draw(st.binary(min_size=length, max_size=length)))
    canonical = decimal_to_bid(number, length)
    assert str(decimal_from_bid(canonical)) == str(number)
    assert decimal_to_bid(decimal_from_bid(canonical), length) == canonical


@given(st.sampled_from(LENGTHS), st.data())
def test_any_number_within_the_precision_survives_digit_by_digit(length: int, data: st.DataObject) -> None:
    digits = data.draw(st.integers(0, 10 ** PRECISION[length] - 1))
    exponent = data.draw(st.integers(-101, 90))
    number = decimal.Decimal(f"{data.draw(st.sampled_from('+-'))}{digits}E{exponent}")
    assert decimal_from_bid(decimal_to_bid(number, length)).as_tuple() == number.as_tuple()


# --- the layout of the service ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, raw",
    [
        # As DecimalEncoding.EncodeValue of Microsoft.Azure.Amqp writes them.
        ("0", "0c400000000000000000000000000000"),
        ("1.5", "0c3e000000000000000000000000000f"),
        ("-1.50", "8c3c0000000000000000000000000096"),
        ("79228162514264337593543950335", "0c400000ffffffffffffffffffffffff"),
        ("1E-28", "0c080000000000000000000000000001"),
    ],
)
def test_numbers_of_dotnet_are_written_and_read_in_the_layout_of_the_service(text: str, raw: str) -> None:
    number = decimal.Decimal(text)
    assert to_service_layout(decimal_to_bid(number, 16)).hex() == raw
    assert decimal_from_decimal128(bytes.fromhex(raw)).as_tuple() == number.as_tuple()


@pytest.mark.parametrize(
    "text, equal",
    [("1E+3", "1000"), ("1.2300E-26", "1.23E-26"), ("0E+5", "0"), ("-0E-40", "-0E-28")],
)
def test_zeros_move_where_that_makes_a_number_one_of_dotnet(text: str, equal: str) -> None:
    read = decimal_from_decimal128(to_service_layout(decimal_to_bid(decimal.Decimal(text), 16)))
    assert read.as_tuple() == decimal.Decimal(equal).as_tuple()


@pytest.mark.parametrize("text", ["1E-29", "1E+29", "79228162514264337593543950336", "NaN", "-Infinity", "8E+28"])
def test_a_number_that_dotnet_has_not_keeps_its_bytes(text: str) -> None:
    raw = decimal_to_bid(decimal.Decimal(text), 16)
    assert to_service_layout(raw) == raw


@given(st.binary(min_size=16, max_size=16))
def test_the_layout_of_the_service_never_changes_a_number(raw: bytes) -> None:
    laid_out = to_service_layout(raw)
    before, after = decimal_from_decimal128(raw), decimal_from_decimal128(laid_out)
    assert str(before.normalize(WIDE)) == str(after.normalize(WIDE))
    assert to_service_layout(laid_out) == laid_out


@given(st.integers(-(2**96) + 1, 2**96 - 1), st.integers(0, 28))
def test_every_number_of_dotnet_survives_in_the_layout_of_the_service(significand: int, digits: int) -> None:
    number = decimal.Decimal(f"{significand}E-{digits}")
    laid_out = to_service_layout(decimal_to_bid(number, 16))
    assert laid_out[0] & 0x7F == 0x0C
    assert decimal_from_decimal128(laid_out).as_tuple() == number.as_tuple()
