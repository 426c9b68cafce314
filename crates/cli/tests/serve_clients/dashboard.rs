//! The admin page in a real browser: it is drawn, it moves, and it asks nobody else for anything.

use super::browser::Browser;
use crate::serve::Served;
use crate::support::Lab;

const WORDS: &str = "--data-dir data --threads 2 --listen memcached://127.0.0.1:0 \
                     --listen resp://127.0.0.1:0 --admin 127.0.0.1:0";

/// Where a person who runs these tests wants pictures: a directory, `light.base64` and
/// `dark.base64` are written there.
const PICTURES: &str = "KEYRACK_PICTURES";

/// Text of the first element that a selector finds.
fn text(browser: &Browser, selector: &str) -> String {
    let body = format!("return document.querySelector('{selector}').textContent");
    browser.run(&body).as_str().unwrap_or_default().to_owned()
}

/// Writes and reads `count` keys, and misses as many.
fn load(served: &Served, count: usize) {
    let mut client = served.connect("memcached");
    for index in 0..count {
        client.ask(format!("set k{index} 0 0 1\r\nx\r\n"), "STORED\r\n");
        client
            .ask(format!("get none k{index}\r\n"), &format!("VALUE k{index} 0 1\r\nx\r\nEND\r\n"));
    }
    served.connect("resp").ask("INCR n\r\nPING\r\n", ":1\r\n+PONG\r\n");
}

#[test]
fn the_page_lives_and_asks_nobody_else() {
    let lab = Lab::new();
    let Some(browser) = Browser::start("the_page_lives_and_asks_nobody_else", &lab) else {
        return;
    };
    let served = Served::start(&lab, WORDS);
    let url = format!("http://{}/", served.address("http"));
    browser.open(&url);
    browser.wait_until("document.querySelector('#state').textContent === 'live'");
    assert_eq!(text(&browser, "h1"), "Keyrack");
    assert!(text(&browser, "#about").contains("durability os"), "{}", text(&browser, "#about"));
    assert_eq!(text(&browser, "#card-rows .value"), "0");

    load(&served, 300);
    browser.wait_until("document.querySelector('#card-rows .value').textContent === '301'");
    browser.wait_until(
        "/^6\\d\\d in all$/.test(document.querySelector('#card-requests .note').textContent)",
    );
    let row = |index: usize| text(&browser, &format!("#protocols tr:nth-child({index})"));
    assert!(row(2).starts_with("memcached") && row(2).ends_with("6003003000"), "{}", row(2));
    assert!(row(3).starts_with("Redis"), "{}", row(3));
    // The line of the chart has a peak by now, and goes on.
    let points = "document.querySelector('#chart-requests polyline').getAttribute('points')";
    browser.wait_until(&format!("new Set({points}.split(' ').map(p => p.split(',')[1])).size > 1"));
    let shown =
        "[...document.querySelectorAll('#all td')].some(cell => cell.textContent === 'get hits')";
    assert_eq!(browser.run(&format!("return {shown}")), true);

    // Every color is legible in both schemes: text is not drawn in what it stands on.
    let mut papers = Vec::new();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        let colors = "const style = getComputedStyle(document.body); return [style.color, \
                      style.backgroundColor].join(' ')";
        papers.push(browser.run(colors).to_string());
        if let Some(folder) = std::env::var_os(PICTURES) {
            let path = std::path::PathBuf::from(folder).join(format!("{scheme}.base64"));
            std::fs::write(path, browser.picture()).unwrap();
        }
    }
    assert_ne!(papers[0], papers[1], "a dark screen gets a dark page");

    // Narrow as a telephone: nothing sticks out.
    let width = "return document.documentElement.scrollWidth <= window.innerWidth";
    assert_eq!(browser.run(width), true);

    let asked = browser.requests();
    assert!(asked.iter().any(|address| address.ends_with("/stats.json")), "{asked:?}");
    for address in &asked {
        assert!(address.starts_with(&url), "the page asks {address}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());

    // A server that goes is missed, and the page says so.
    served.end();
    browser.wait_until("document.querySelector('#state').className === 'lost'");
    browser.end();
}
