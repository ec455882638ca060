//! A picture of cells in rows and columns, one color each: ten thousand rows in a page of some hundred kilobytes.
//!
//! The cells are text of one byte each (base64), and `map.js` draws them on a canvas at the width that the page has. Where there are more
//! rows than pixels, a pixel shows the cell that is furthest off.

use serde_json::json;

use super::escape::{escaped, in_script};
use crate::chart::CellMap;
use crate::words::plain;

/// The drawing.
pub fn map(title: &str, of: &CellMap) -> String {
    let names = |all: &[String]| all.iter().map(|name| plain(name)).collect::<Vec<_>>();
    let bytes: Vec<u8> = of.cells.iter().map(|cell| cell.cast_unsigned()).collect();
    let description = json!({
        "rows": names(&of.rows),
        "columns": names(&of.columns),
        "cells": base64(&bytes),
        "step": of.step,
        "full": of.full,
    });
    let title = escaped(title);
    format!(
        "<figure class=\"chart map\">\n<figcaption>{title}</figcaption>\n\
         <div class=\"stage\"><canvas role=\"img\" tabindex=\"0\" aria-label=\"Picture: {title}\"></canvas></div>\n\
         <script type=\"application/json\">{}</script>\n</figure>\n",
        in_script(&description.to_string())
    )
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// RFC 4648.
fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= three.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
