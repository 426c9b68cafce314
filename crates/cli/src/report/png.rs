//! PNG pictures, made of our SVG by a program that the machine has: `rsvg-convert` or Chromium.
//!
//! To draw letters takes a font and a renderer of fonts; these two have both. SVG and PDF need
//! neither of them.

use keyrack_report::{Charts, Format};
use keyrack_vfs::{Fs, RealFs};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Pixels of a picture for each pixel of the SVG.
const SCALE: &str = "2";

/// A program that makes PNG of SVG.
#[derive(Debug)]
pub(super) enum Converter {
    Rsvg(PathBuf),
    Chromium(PathBuf),
}

impl Converter {
    /// The first that the search path has.
    ///
    /// # Errors
    /// One line with the remedy where there is none.
    pub(super) fn find() -> Result<Converter, String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let look = |name: &str| {
            let mut found = std::env::split_paths(&path).map(|folder| folder.join(name));
            found.find(|path| path.is_file())
        };
        if let Some(path) = look("rsvg-convert") {
            return Ok(Converter::Rsvg(path));
        }
        ["chromium", "chromium-browser", "google-chrome", "chrome"]
            .into_iter()
            .find_map(look)
            .map(Converter::Chromium)
            .ok_or_else(|| {
                "--format png needs rsvg-convert (Debian: librsvg2-bin) or chromium; svg and pdf \
                 need neither"
                    .to_owned()
            })
    }

    /// Writes each chart as PNG; gives their number.
    pub(super) fn draw(&self, charts: &Charts, out: &Path) -> Result<usize, String> {
        let mut count = 0;
        for (name, svg) in charts.pictures(Format::Svg) {
            let from = out.join(format!("{name}.png.svg"));
            let to = out.join(format!("{name}.png"));
            RealFs.write_atomic(&from, &svg).map_err(|error| error.to_string())?;
            let done = self.convert(&from, &to, &String::from_utf8_lossy(&svg));
            RealFs.remove_file(&from).map_err(|error| error.to_string())?;
            done?;
            count += 1;
        }
        Ok(count)
    }

    fn convert(&self, from: &Path, to: &Path, svg: &str) -> Result<(), String> {
        let mut command = match self {
            Converter::Rsvg(program) => {
                let mut command = Command::new(program);
                command.args(["--zoom", SCALE, "--output"]).arg(to).arg(from);
                command
            }
            Converter::Chromium(program) => {
                let (width, height) = size(svg);
                let from = std::path::absolute(from).map_err(|error| error.to_string())?;
                let mut command = Command::new(program);
                command
                    .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
                    .arg(format!("--force-device-scale-factor={SCALE}"))
                    .arg(format!("--window-size={width},{height}"))
                    .arg(format!("--screenshot={}", to.display()))
                    .arg(format!("file://{}", from.display()));
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().map_err(|error| error.to_string())?;
        let is_there = RealFs.exists(to).map_err(|error| error.to_string())?;
        if status.success() && is_there {
            return Ok(());
        }
        let program = command.get_program().to_string_lossy().into_owned();
        Err(format!("{program} could not make {} ({status})", to.display()))
    }
}

/// Width and height that the first line of our SVG says.
fn size(svg: &str) -> (u32, u32) {
    let of = |name: &str| {
        let (_, rest) = svg.split_once(&format!(" {name}=\""))?;
        rest.split_once('"')?.0.parse::<f64>().ok()
    };
    let whole = |value: Option<f64>| value.unwrap_or(800.0).ceil().clamp(1.0, 20_000.0) as u32;
    (whole(of("width")), whole(of("height")))
}
