//! A headless Chromium, told what to do by WebDriver: a few requests of JSON over HTTP to
//! `chromedriver`, which the browser's own makers ship.

use super::program;
use crate::support::{Lab, Running, parse_json};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

pub(crate) struct Browser {
    // Dropped in this order: the driver ends the browser before it is ended itself.
    session: Session,
    driver: Running,
}

/// A browser as its driver knows it; it ends when this is dropped, by a test that has failed, too.
struct Session {
    /// Of the driver.
    address: String,
    id: String,
}

impl Browser {
    /// Starts one, or says that `test` is skipped.
    #[track_caller]
    pub(crate) fn start(test: &str, lab: &Lab) -> Option<Browser> {
        let chromium = program(test, "chromium")?;
        let chromedriver = program(test, "chromedriver")?;
        // It says its port on standard output; what can be waited for is a child's standard error.
        let script = format!("exec {} --port=0 >&2", chromedriver.display());
        let mut driver = lab.start_tool("/bin/sh".as_ref(), &["-c", &script]);
        driver.wait_for("started successfully on port");
        let said = driver.seen().rsplit("on port ").next().unwrap_or_default();
        let port: String = said.chars().take_while(char::is_ascii_digit).collect();
        let mut session = Session { address: format!("127.0.0.1:{port}"), id: String::new() };
        let profile = format!("--user-data-dir={}", lab.path("profile").display());
        let words = [
            "--headless=new",
            // In a container there is no user to change to, and little shared memory.
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--hide-scrollbars",
            "--window-size=1200,1000",
            &profile,
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"binary": chromium, "args": words},
            "goog:loggingPrefs": {"performance": "ALL", "browser": "ALL"},
        }}});
        let made = session.call("POST", "/session", &wanted);
        session.id = made["sessionId"].as_str().unwrap().to_owned();
        Some(Browser { session, driver })
    }

    /// Goes to a page and waits until it is loaded.
    #[track_caller]
    pub(crate) fn open(&self, url: &str) {
        self.ask("/url", &json!({ "url": url }));
    }

    /// What a function's body in JavaScript gives back.
    #[track_caller]
    pub(crate) fn run(&self, body: &str) -> Value {
        self.ask("/execute/sync", &json!({"script": body, "args": []}))
    }

    /// Waits until `condition`, an expression in JavaScript, holds: it is looked at after each
    /// change of the page.
    #[track_caller]
    pub(crate) fn wait_until(&self, condition: &str) {
        self.ask("/timeouts", &json!({"script": 60_000}));
        let body = format!(
            "const done = arguments[0]; const look = () => {{ if ({condition}) {{ \
             watch.disconnect(); done(true); }} }}; const watch = new MutationObserver(look); \
             watch.observe(document, {{subtree: true, childList: true, attributes: true, \
             characterData: true}}); look();"
        );
        let held = self.ask("/execute/async", &json!({"script": body, "args": []}));
        assert_eq!(held, true, "{condition}");
    }

    /// The page as a person with a dark or a light screen sees it.
    #[track_caller]
    pub(crate) fn prefer(&self, scheme: &str) {
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        let words = json!({"cmd": "Emulation.setEmulatedMedia", "params": {"features": [feature]}});
        self.ask("/goog/cdp/execute", &words);
    }

    /// Gives the page a window of this many pixels.
    #[track_caller]
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        let words = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": size});
        self.ask("/goog/cdp/execute", &words);
    }

    /// Presses and releases a key, as a person does; `key` is a letter, or a key's code of
    /// WebDriver.
    #[track_caller]
    pub(crate) fn press(&self, key: &str) {
        let steps = ["keyDown", "keyUp"].map(|step| json!({"type": step, "value": key}));
        self.act(&json!([{"type": "key", "id": "keyboard", "actions": steps}]));
    }

    /// Moves the pointer through places of the window; holds its button down on the way from the
    /// first to the last when `holds`.
    #[track_caller]
    pub(crate) fn point(&self, places: &[(f64, f64)], holds: bool) {
        let mut steps = Vec::new();
        for (index, (x, y)) in places.iter().enumerate() {
            let (x, y) = (x.round() as i64, y.round() as i64);
            steps.push(json!({"type": "pointerMove", "duration": 0, "x": x, "y": y}));
            if holds && index == 0 {
                steps.push(json!({"type": "pointerDown", "button": 0}));
            }
        }
        if holds {
            steps.push(json!({"type": "pointerUp", "button": 0}));
        }
        self.act(&json!([{"type": "pointer", "id": "mouse", "actions": steps}]));
    }

    #[track_caller]
    fn act(&self, actions: &Value) {
        self.ask("/actions", &json!({ "actions": actions }));
    }

    /// A picture of the page, as PNG in base 64.
    #[track_caller]
    pub(crate) fn picture(&self) -> String {
        let path = format!("/session/{}/screenshot", self.session.id);
        let reply = self.session.call("GET", &path, &Value::Null);
        reply.as_str().unwrap().to_owned()
    }

    /// The addresses that pages have asked for since the last call.
    #[track_caller]
    pub(crate) fn requests(&self) -> Vec<String> {
        let entries = self.log("performance");
        let sent = entries.into_iter().filter_map(|entry| {
            let event = parse_json(entry["message"].as_str()?);
            let message = &event["message"];
            // The page that a browser opens with has requests of its own.
            let document = message["params"]["documentURL"].as_str().unwrap_or_default();
            let is_sent = message["method"] == "Network.requestWillBeSent"
                && !document.starts_with("chrome:");
            is_sent.then(|| message["params"]["request"]["url"].as_str().map(str::to_owned))?
        });
        sent.collect()
    }

    /// What the page's console and the browser's checks said since the last call.
    #[track_caller]
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.log("browser").iter().map(|entry| entry["message"].to_string()).collect()
    }

    /// Ends the browser and what drives it.
    #[track_caller]
    pub(crate) fn end(self) {
        drop(self.session);
        self.driver.signal("TERM");
        self.driver.finish();
    }

    #[track_caller]
    fn log(&self, kind: &str) -> Vec<Value> {
        self.ask("/se/log", &json!({ "type": kind })).as_array().cloned().unwrap_or_default()
    }

    #[track_caller]
    fn ask(&self, command: &str, words: &Value) -> Value {
        self.session.call("POST", &format!("/session/{}{command}", self.session.id), words)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Nothing is asserted: the test may be failing already. The reply comes when it has ended.
        if let Ok(mut stream) = TcpStream::connect(&self.address) {
            let head = format!(
                "DELETE /session/{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                self.id, self.address
            );
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.read(&mut [0; 64]);
        }
    }
}

impl Session {
    /// One request on a connection of its own; gives the reply's value.
    #[track_caller]
    fn call(&self, method: &str, path: &str, words: &Value) -> Value {
        let body = if method == "POST" { words.to_string() } else { String::new() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut stream = BufReader::new(stream);
        let (mut status, mut bytes) = (String::new(), 0);
        stream.read_line(&mut status).unwrap();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            if name.eq_ignore_ascii_case("content-length") {
                bytes = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; bytes];
        stream.read_exact(&mut body).unwrap();
        let reply = parse_json(&String::from_utf8_lossy(&body));
        assert!(status.contains(" 200 "), "{method} {path}: {status}{reply:#}");
        reply["value"].clone()
    }
}
