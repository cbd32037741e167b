use super::*;

#[test]
fn numbers_without_a_fraction_are_integers() {
    let check = |text: &str, expected: Integer| assert_eq!(integer(text), Some(expected), "{text}");
    check("0", 0);
    check("-0", 0);
    check("12", 12);
    check("-12", -12);
    check("1.0", 1);
    check("1.500e1", 15);
    check("1e2", 100);
    check("1E+2", 100);
    check("1200e-2", 12);
    check("0.5e1", 5);
    check("0e999999999999", 0);
    check("0.000", 0);
    check("18446744073709551615", 18_446_744_073_709_551_615);
    check("-9223372036854775808", -9_223_372_036_854_775_808);
    check("1e19", 10_000_000_000_000_000_000);
}

#[test]
fn other_texts_are_not() {
    let others = [
        "",
        "-",
        "+1",
        "01",
        "1.",
        ".5",
        "1.5",
        "1e",
        "1e+",
        "0x1",
        " 1",
        "1 ",
        "12 13",
        "1e-1",
        "12.5e0",
        "1e400",
        "1e20",
        "1e99999999999",
        "100000000000000000000000",
        "abc",
        "1_000",
        "٣",
        "--1",
        "1e1e1",
        "1.2.3",
        "NaN",
        "null",
    ];
    for text in others {
        assert_eq!(integer(text), None, "{text}");
    }
}
