//! Chooses the compression of a response by its `Accept-Encoding`. Must not depend on the content. Pure.

/// Whether gzip is accepted with at least the weight of identity. An invalid header accepts nothing.
pub(crate) fn prefers_gzip<'a>(headers: impl Iterator<Item = &'a str>) -> bool {
    let (mut gzip, mut identity, mut others) = (None, None, None);
    for coding in headers.flat_map(|text| text.split(',')) {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let Some(weight) = weight.map_or(Some(1_000), thousandths) else { continue };
        match name.as_str() {
            "gzip" | "x-gzip" => gzip = Some(weight),
            "identity" => identity = Some(weight),
            "*" => others = Some(weight),
            _ => {}
        }
    }
    let gzip = gzip.or(others).unwrap_or(0);
    gzip > 0 && gzip >= identity.unwrap_or(0)
}

/// A weight from 0 to 1 with at most three decimals, as a whole number.
fn thousandths(text: &str) -> Option<u32> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let decimals: u32 = format!("{decimals:0<3}").parse().ok()?;
    match (whole, decimals) {
        ("0", decimals) => Some(decimals),
        ("1", 0) => Some(1_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_chosen_by_weight() {
        for yes in [
            "gzip",
            "GZIP",
            "x-gzip",
            "br, gzip",
            "deflate;q=1, gzip ; q=0.5",
            "gzip;q=0.001",
            "*",
            "identity;q=0.5, *;q=0.5",
            "gzip;q=1.000, identity",
            "identity;q=0, gzip;q=0.2",
        ] {
            assert!(prefers_gzip([yes].into_iter()), "{yes}");
        }
        for no in [
            "",
            "br",
            "identity",
            "gzip;q=0",
            "gzip;q=0.000, *",
            "*;q=0",
            "gzip;q=0.4, identity;q=0.5",
            "gzip;q=2",
            "gzip;q=0.1234",
            "gzip;q=x",
            "gzipped",
        ] {
            assert!(!prefers_gzip([no].into_iter()), "{no}");
        }
        assert!(prefers_gzip(["br", "gzip"].into_iter()));
        assert!(!prefers_gzip(std::iter::empty()));
    }
}
