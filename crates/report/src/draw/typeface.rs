//! The letters of pictures: Keyrack Sans, a sans serif with the widths of Helvetica, in the binary.
//!
//! PNG takes its outlines; PDF takes the file itself. SVG leaves letters to whoever shows it, which
//! has another font with nearly these widths. There is no kerning, in any of them.
//!
//! It has the letters of Latin, Greek and Cyrillic. Any other is a box, as readers are used to.

use std::sync::LazyLock;
use ttf_parser::{Face, GlyphId};

const REGULAR: &[u8] = include_bytes!("fonts/KeyrackSans-Regular.ttf");
const BOLD: &[u8] = include_bytes!("fonts/KeyrackSans-Bold.ttf");

static FACES: LazyLock<[Face<'static>; 2]> = LazyLock::new(|| {
    [REGULAR, BOLD].map(|bytes| Face::parse(bytes, 0).expect("the font in the binary is one"))
});

/// The box.
const MISSING: GlyphId = GlyphId(0);

/// One of the two.
pub(super) fn face(bold: bool) -> &'static Face<'static> {
    &FACES[usize::from(bold)]
}

/// The file of a face.
pub(super) fn file(bold: bool) -> &'static [u8] {
    if bold { BOLD } else { REGULAR }
}

/// What stands for a letter.
pub(super) fn glyph(letter: char, bold: bool) -> GlyphId {
    // What separates words of names may be any blank; and nothing is drawn of what has no looks.
    let letter = if letter.is_whitespace() || letter.is_control() { ' ' } else { letter };
    face(bold).glyph_index(letter).unwrap_or(MISSING)
}

/// How far the next letter is, for letters of size 1.
pub(super) fn advance(glyph: GlyphId, bold: bool) -> f64 {
    let face = face(bold);
    f64::from(face.glyph_hor_advance(glyph).unwrap_or(0)) / f64::from(face.units_per_em())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_europe_are_there() {
        for bold in [false, true] {
            for letter in "Aa~ÀÿŁőΩµЖя€–…×≤".chars() {
                assert_ne!(glyph(letter, bold), MISSING, "{letter}");
                assert!(advance(glyph(letter, bold), bold) > 0.0, "{letter}");
            }
            assert_eq!(glyph('漢', bold), MISSING);
            assert_eq!(glyph('\u{7}', bold), glyph(' ', bold));
            assert!(advance(MISSING, bold) > 0.0);
        }
    }
}
