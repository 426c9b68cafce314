//! How engines look: colours for light and dark paper, a mark and a line for each, from a file.
//!
//! Colour never is the only difference. An engine keeps its look in every picture; engines that the
//! file does not name take the free ones of its rows, and where there are more engines than rows,
//! or an engine stands there twice since several runs have it, lines are dashed differently.

use crate::Error;

/// The bundled file.
const BUNDLED: &str = include_str!("palette.txt");

/// Looks by name of engine.
#[derive(Clone, Debug)]
pub struct Palette {
    rows: Vec<(String, Look)>,
}

/// How one engine looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// `#rrggbb` on white paper.
    pub light: String,
    /// `#rrggbb` on dark paper.
    pub dark: String,
    /// The mark at a measured point.
    pub shape: Shape,
    /// Which dashes: 0 is a whole line.
    pub dash: usize,
}

/// Marks that differ at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A disc.
    Circle,
    /// A square on its side.
    Square,
    /// A square on its corner.
    Diamond,
    /// A triangle on its base.
    Up,
    /// A triangle on its corner.
    Down,
    /// A plus with thick arms.
    Plus,
    /// The same, turned.
    Cross,
    /// A flat hexagon.
    Hexagon,
    /// A triangle that points there.
    Left,
    /// A triangle that points there.
    Right,
    /// A star of five points.
    Star,
    /// Two triangles, one on the other's corner.
    Hourglass,
    /// The same, lying.
    Bowtie,
    /// A thin upright rectangle.
    Bar,
    /// The same, lying.
    Beam,
    /// A square under a roof.
    House,
    /// An angle that points up.
    Chevron,
}

impl Shape {
    const ALL: [(&'static str, Shape); 17] = [
        ("circle", Shape::Circle),
        ("square", Shape::Square),
        ("diamond", Shape::Diamond),
        ("up", Shape::Up),
        ("down", Shape::Down),
        ("plus", Shape::Plus),
        ("cross", Shape::Cross),
        ("hexagon", Shape::Hexagon),
        ("left", Shape::Left),
        ("right", Shape::Right),
        ("star", Shape::Star),
        ("hourglass", Shape::Hourglass),
        ("bowtie", Shape::Bowtie),
        ("bar", Shape::Bar),
        ("beam", Shape::Beam),
        ("house", Shape::House),
        ("chevron", Shape::Chevron),
    ];

    /// The name in a palette file.
    #[must_use]
    pub fn name(self) -> &'static str {
        Shape::ALL.iter().find(|(_, shape)| *shape == self).map_or("circle", |(name, _)| name)
    }
}

/// Lengths of strokes and gaps in pixels; the first is a whole line.
pub(crate) const DASHES: [&[f64]; 5] =
    [&[], &[7.0, 4.0], &[2.0, 3.0], &[10.0, 3.0, 2.0, 3.0], &[14.0, 4.0]];

impl Default for Palette {
    fn default() -> Self {
        // The bundled file is tested to be sound; without rows everything would be black.
        Palette::parse("palette.txt", BUNDLED).unwrap_or(Palette { rows: Vec::new() })
    }
}

/// A line of keybench's palette in the words of ours; `None` for any other.
fn keybench_line(line: &str, number: usize) -> Option<String> {
    let (name, color) = line.split_once('=').filter(|(name, _)| !name.trim().starts_with('#'))?;
    let (shape, _) = Shape::ALL[number % Shape::ALL.len()];
    Some(format!("{} {1} {1} {shape}", name.trim().to_lowercase(), color.trim()))
}

impl Palette {
    /// Reads a palette: a line an engine, `NAME LIGHT DARK SHAPE`, colours as `#rrggbb`; `#` before
    /// anything else begins a comment. A line of keybench's file, `NAME=COLOR`, is a colour on both
    /// grounds, and gets the next shape. `name` is for messages.
    ///
    /// # Errors
    /// [`Error::Palette`] for a line that is none of these.
    pub fn parse(name: &str, text: &str) -> Result<Palette, Error> {
        let mut rows: Vec<(String, Look)> = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let own = keybench_line(line, rows.len());
            let line = own.as_deref().unwrap_or(line);
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.first().is_none_or(|word| word.starts_with('#')) {
                continue;
            }
            let refuse =
                |what: String| Error::Palette { name: name.to_owned(), line: number, what };
            let [engine, light, dark, shape] = words[..] else {
                return Err(refuse("not NAME LIGHT DARK SHAPE".to_owned()));
            };
            if let Some(bad) = [light, dark].into_iter().find(|color| rgb(color).is_none()) {
                return Err(refuse(format!("'{bad}' is not a color such as #1a2b3c")));
            }
            let known = Shape::ALL.iter().find(|(name, _)| *name == shape);
            let Some((_, shape)) = known else {
                let names: Vec<&str> = Shape::ALL.iter().map(|(name, _)| *name).collect();
                return Err(refuse(format!("no shape '{shape}' (have: {})", names.join(", "))));
            };
            if rows.iter().any(|(other, _)| *other == engine) {
                return Err(refuse(format!("'{engine}' is there twice")));
            }
            let (light, dark) = (light.to_owned(), dark.to_owned());
            rows.push((engine.to_owned(), Look { light, dark, shape: *shape, dash: 0 }));
        }
        if rows.is_empty() {
            let what = "no engine in it".to_owned();
            return Err(Error::Palette { name: name.to_owned(), line: 1, what });
        }
        Ok(Palette { rows })
    }

    /// The engines that have a row, in its order.
    pub fn engines(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|(name, _)| name.as_str())
    }

    /// One look for each engine, in their order; no two are the same up to five times the rows.
    pub(crate) fn looks(&self, engines: &[&str]) -> Vec<Look> {
        let names: Vec<String> = engines.iter().map(|engine| engine.to_lowercase()).collect();
        let row_of = |name: &String| self.rows.iter().position(|(row, _)| row == name);
        let mut used = vec![0_usize; self.rows.len()];
        names.iter().filter_map(row_of).for_each(|row| used[row] += 1);
        // An engine of several runs keeps its row.
        let mut strangers: Vec<(&String, usize)> = Vec::new();
        let mut given = vec![0_usize; self.rows.len()];
        names
            .iter()
            .map(|name| {
                let known = strangers.iter().find(|(other, _)| *other == name);
                let row = row_of(name).or(known.map(|(_, row)| *row)).or_else(|| {
                    let free = (0..self.rows.len()).min_by_key(|row| used[*row])?;
                    used[free] += 1;
                    strangers.push((name, free));
                    Some(free)
                });
                let Some(row) = row else { return Look::plain() };
                let dash = given[row] % DASHES.len();
                given[row] += 1;
                Look { dash, ..self.rows[row].1.clone() }
            })
            .collect()
    }
}

impl Look {
    fn plain() -> Look {
        let (light, dark) = ("#000000".to_owned(), "#ffffff".to_owned());
        Look { light, dark, shape: Shape::Circle, dash: 0 }
    }
}

/// The three parts of `#rrggbb`.
pub(crate) fn rgb(color: &str) -> Option<[u8; 3]> {
    let digits = color.strip_prefix('#').filter(|digits| digits.len() == 6 && digits.is_ascii())?;
    let part = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok();
    Some([part(0)?, part(2)?, part(4)?])
}
