//! The page in a real browser: charts are drawn, pointer and keys do what the page says, nothing is
//! fetched, and it looks as in `docs/images/`.
//!
//! With `KEYRACK_REWRITE=1` the pictures there are taken anew.

use super::example;
use crate::serve_clients::browser::Browser;
use crate::support::Lab;

/// What a key is called by WebDriver.
const RIGHT: &str = "\u{e014}";
const TAB: &str = "\u{e004}";

/// Where a panel's plane lies in the window: left, top, width, height.
fn place(browser: &Browser, selector: &str) -> [f64; 4] {
    let body = format!(
        "const node = document.querySelector('{selector}'); \
         node.scrollIntoView({{block: 'center', behavior: 'instant'}}); \
         const box = node.getBoundingClientRect(); \
         return [box.left, box.top, box.width, box.height]"
    );
    let numbers = browser.run(&body);
    let number = |index: usize| numbers[index].as_f64().unwrap();
    [number(0), number(1), number(2), number(3)]
}

fn text(browser: &Browser, expression: &str) -> String {
    browser.run(&format!("return String({expression})")).as_str().unwrap().to_owned()
}

fn count(browser: &Browser, selector: &str) -> u64 {
    let body = format!("return document.querySelectorAll('{selector}').length");
    browser.run(&body).as_u64().unwrap()
}

#[test]
fn the_page_answers_pointer_and_keys_and_asks_nobody() {
    let lab = Lab::new();
    let test = "the_page_answers_pointer_and_keys_and_asks_nobody";
    let Some(browser) = Browser::start(test, &lab) else { return };
    example::write(&lab, "example", 1.0);
    lab.run("report html example --out report.html").exits(0);
    let url = format!("file://{}", lab.path("report.html").display());
    browser.resize(1360, 1100);
    browser.prefer("light");
    browser.requests();
    browser.open(&url);
    browser.wait_until("document.documentElement.classList.contains('ready')");

    // Every chart of the data is there, and in each there is something.
    assert_eq!(count(&browser, "article .panel svg:empty"), 0);
    assert!(count(&browser, "#scalability .panel") == 4 && count(&browser, "#stalls rect") > 8);
    let curves = "#scalability .panel:first-of-type polyline";
    assert_eq!(count(&browser, curves), 8);
    let drawn = "[...document.querySelectorAll('svg *')].every(node => \
                 [...node.attributes].every(a => !/NaN|Infinity|undefined/.test(a.value)))";
    assert_eq!(text(&browser, drawn), "true");

    // An engine goes with its key and comes back with its name.
    browser.press("3");
    assert_eq!(count(&browser, curves), 7);
    assert_eq!(
        text(&browser, "document.querySelectorAll('#results tr[data-s=\"2\"]')[0].hidden"),
        "true"
    );
    browser.run("document.querySelectorAll('#legend button')[2].click()");
    assert_eq!(count(&browser, curves), 8);

    // The pointer tells all engines at its place, the fastest first.
    let panel = "#timeline_throughput .panel svg";
    let [left, top, width, height] = place(&browser, panel);
    let middle = top + height / 2.0;
    browser.point(&[(left + width * 0.5, middle)], false);
    browser.wait_until("!document.getElementById('tip').hidden");
    let told = text(&browser, "document.getElementById('tip').textContent");
    assert!(told.contains("elapsed seconds") && told.contains("units/s"), "{told}");
    let order = ["alder", "oak", "maple"].map(|name| told.find(name).unwrap());
    assert!(order.is_sorted(), "{told}");

    // Dragging zooms all panels of the chart; a double click and a key take it back.
    let marks =
        format!("[...document.querySelectorAll('{panel} text')].map(t => t.textContent).join(' ')");
    let whole = text(&browser, &marks);
    browser.point(&[(left + width * 0.4, middle), (left + width * 0.6, middle)], true);
    browser.wait_until("!document.querySelector('#timeline_throughput .reset').hidden");
    assert_ne!(text(&browser, &marks), whole);
    browser.run("document.querySelector('#timeline_throughput .panel').focus()");
    browser.press("0");
    assert_eq!(text(&browser, &marks), whole);
    browser.press("+");
    assert_ne!(text(&browser, &marks), whole);
    browser.press("-");
    assert_eq!(text(&browser, &marks), whole);
    browser.press("l");
    assert_ne!(text(&browser, &marks), whole, "a logarithm has other marks");
    browser.press("l");
    assert_eq!(text(&browser, &marks), whole);
    browser.press(RIGHT);
    assert_eq!(text(&browser, "document.getElementById('tip').hidden"), "false");
    browser.press(TAB);
    assert_eq!(text(&browser, "document.getElementById('tip').hidden"), "true");

    // A column sorts its table.
    let first = "document.querySelector('#results tbody tr td:nth-child(5)').textContent";
    browser.run("document.querySelectorAll('#results th button')[4].click()");
    let smallest = text(&browser, first);
    browser.run("document.querySelectorAll('#results th button')[4].click()");
    assert!(text(&browser, first).len() > smallest.len(), "{smallest}");

    // Light and dark; paper is always light, and has no buttons.
    let paper = "getComputedStyle(document.querySelector('.card')).backgroundColor";
    let light = text(&browser, paper);
    picture(&browser, "report.png");
    browser.prefer("dark");
    browser.wait_until("document.documentElement.classList.contains('dark')");
    assert_ne!(text(&browser, paper), light);
    picture(&browser, "report-dark.png");
    browser.press("d");
    assert_eq!(text(&browser, paper), light);

    // Nothing sticks out of a telephone.
    browser.resize(390, 800);
    browser.wait_until(
        "document.querySelector('#scalability svg').getAttribute('viewBox').split(' ')[2] < 390",
    );
    assert_eq!(text(&browser, "document.documentElement.scrollWidth <= 390"), "true");

    let asked = browser.requests();
    assert!(
        asked.iter().all(|address| *address == url || address.starts_with("data:")),
        "{asked:?}"
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.end();
}

/// Takes a picture for the documentation, where that is asked for.
fn picture(browser: &Browser, name: &str) {
    if std::env::var_os("KEYRACK_REWRITE").is_none() {
        return;
    }
    browser.run("document.activeElement.blur(); scrollTo({top: 0, behavior: 'instant'})");
    browser.resize(1360, 2150);
    let path = format!("{}/../../docs/images/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::write(path, decoded(&browser.picture())).unwrap();
    browser.resize(1360, 1100);
}

/// The bytes that base 64 stands for.
fn decoded(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter_map(|byte| LETTERS.iter().position(|l| *l == byte));
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_usize, 0);
    for digit in digits {
        (bits, count) = ((bits << 6 | digit) & 0xffff, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}

#[test]
fn base_64_is_read() {
    assert_eq!(decoded("aGVsbG8="), b"hello");
    assert_eq!(decoded(""), b"");
}
