//! The letters of a PDF: both faces whole, their glyphs by number, and what each means as text.
//!
//! ```text
//!   font (Type0) -- glyphs --> font (CIDFontType2) --> descriptor --> the file of the face
//!        \--- letters of glyphs, for who searches or copies
//! ```

use crate::draw::svg::number;
use crate::draw::typeface;
use miniz_oxide::deflate::compress_to_vec_zlib;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Objects of a face.
pub(super) const OBJECTS: usize = 5;

/// The files of the faces as streams.
static FILES: LazyLock<[Vec<u8>; 2]> =
    LazyLock::new(|| [false, true].map(|bold| compress_to_vec_zlib(typeface::file(bold), 9)));

/// A face of a document: what of it is used.
#[derive(Debug)]
pub(super) struct Used {
    bold: bool,
    /// A letter for each glyph.
    glyphs: BTreeMap<u16, char>,
}

impl Used {
    pub(super) fn new(bold: bool) -> Used {
        Used { bold, glyphs: BTreeMap::new() }
    }

    /// A text as glyphs, four digits each.
    pub(super) fn glyphs(&mut self, text: &str) -> String {
        let mut digits = String::with_capacity(text.len() * 4);
        for letter in text.chars() {
            let glyph = typeface::glyph(letter, self.bold);
            let letter = if letter.is_control() { ' ' } else { letter };
            let letter = if glyph.0 == 0 { char::REPLACEMENT_CHARACTER } else { letter };
            self.glyphs.entry(glyph.0).or_insert(letter);
            digits.push_str(&format!("{:04x}", glyph.0));
        }
        digits
    }

    /// The objects of the face, of which the first has the number `first`.
    pub(super) fn objects(&self, first: usize) -> [Vec<u8>; OBJECTS] {
        let face = typeface::face(self.bold);
        let name = if self.bold { "KeyrackSans-Bold" } else { "KeyrackSans-Regular" };
        let thousandths =
            |units: i16| number(f64::from(units) * 1000.0 / f64::from(face.units_per_em()));
        let widths: Vec<String> = self
            .glyphs
            .keys()
            .map(|glyph| {
                let advance = typeface::advance(ttf_parser::GlyphId(*glyph), self.bold);
                format!("{glyph} [{}]", number(advance * 1000.0))
            })
            .collect();
        let bounds = face.global_bounding_box();
        let bounds = [bounds.x_min, bounds.y_min, bounds.x_max, bounds.y_max].map(thousandths);
        let file = &FILES[usize::from(self.bold)];
        let mut stream = format!(
            "<< /Length {} /Length1 {} /Filter /FlateDecode >>\nstream\n",
            file.len(),
            typeface::file(self.bold).len()
        )
        .into_bytes();
        stream.extend(file);
        stream.extend(b"\nendstream");
        let letters = self.letters();
        [
            format!(
                "<< /Type /Font /Subtype /Type0 /BaseFont /{name} /Encoding /Identity-H \
                 /DescendantFonts [{} 0 R] /ToUnicode {} 0 R >>",
                first + 1,
                first + 2
            )
            .into_bytes(),
            format!(
                "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /{name} /CIDSystemInfo \
                 << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> \
                 /CIDToGIDMap /Identity /FontDescriptor {} 0 R /W [{}] >>",
                first + 3,
                widths.join(" ")
            )
            .into_bytes(),
            format!("<< /Length {} >>\nstream\n{letters}\nendstream", letters.len()).into_bytes(),
            format!(
                "<< /Type /FontDescriptor /FontName /{name} /Flags 32 /FontBBox [{}] \
                 /ItalicAngle 0 /Ascent {} /Descent {} /CapHeight {} /StemV {} \
                 /FontFile2 {} 0 R >>",
                bounds.join(" "),
                thousandths(face.ascender()),
                thousandths(face.descender()),
                thousandths(face.capital_height().unwrap_or(face.ascender())),
                if self.bold { 140 } else { 80 },
                first + 4
            )
            .into_bytes(),
            stream,
        ]
    }

    /// The letters of glyphs, as the language of fonts has it.
    fn letters(&self) -> String {
        let rows: Vec<String> = self
            .glyphs
            .iter()
            .map(|(glyph, letter)| {
                let mut units = [0; 2];
                let units = letter.encode_utf16(&mut units).iter();
                let units: String = units.map(|unit| format!("{unit:04x}")).collect();
                format!("<{glyph:04x}> <{units}>\n")
            })
            .collect();
        let mut text = "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n\
             /CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def\n\
             /CMapName /Adobe-Identity-UCS def\n/CMapType 2 def\n\
             1 begincodespacerange\n<0000> <ffff>\nendcodespacerange\n"
            .to_owned();
        // At most a hundred rows in a block, says the language.
        for block in rows.chunks(100) {
            text.push_str(&format!("{} beginbfchar\n{}endbfchar\n", block.len(), block.concat()));
        }
        text.push_str("endcmap\nCMapName currentdict /CMap defineresource pop\nend\nend");
        text
    }
}
