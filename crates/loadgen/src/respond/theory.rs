//! What queueing theory says about an oracle: response times of one queue before one server, with
//! Poisson arrivals.
//!
//! **M/M/1** (exponential service): response times are exponential with the rate `mu - lambda`.
//!
//! **M/D/1** (equal service times D): the waiting time is Erlang's, with `rho = lambda D`,
//! `P(W <= t) = (1 - rho) sum over k of (lambda (k D - t))^k / k! exp(-lambda (k D - t))`, k from 0
//! to t/D; response is that and D. The terms alternate and cancel, so the sum loses about
//! `rho t / D` in powers of e; up to 16 of them, six digits are left.

/// The response time that the fraction `q` of all requests stay below, in the unit of the rates'
/// inverse. Infinite where the queue grows for ever.
#[must_use]
pub fn mm1_response(arrivals: f64, services: f64, q: f64) -> f64 {
    if arrivals >= services {
        return f64::INFINITY;
    }
    -(1.0 - q).ln() / (services - arrivals)
}

/// The same for service times that are all `service`.
#[must_use]
pub fn md1_response(arrivals: f64, service: f64, q: f64) -> f64 {
    let load = arrivals * service;
    if load >= 1.0 {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.0, service);
    while md1_waits_at_most(arrivals, service, high) < q && high < service * 16.0 / load.max(0.01) {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if md1_waits_at_most(arrivals, service, middle) < q {
            low = middle;
        } else {
            high = middle;
        }
    }
    service + high
}

fn md1_waits_at_most(arrivals: f64, service: f64, t: f64) -> f64 {
    let mut sum = 0.0;
    let mut k = 0.0;
    while k * service <= t {
        let x = arrivals * (k * service - t);
        // (x^k / k!) e^-x, through logarithms; x is negative, so odd powers are.
        let size = if k == 0.0 { -x } else { k * (-x).ln() - ln_factorial(k) - x };
        let sign = if k % 2.0 == 1.0 { -1.0 } else { 1.0 };
        if k == 0.0 || x != 0.0 {
            sum += sign * size.exp();
        }
        k += 1.0;
    }
    (1.0 - arrivals * service) * sum
}

fn ln_factorial(k: f64) -> f64 {
    (2..=k as u64).map(|factor| (factor as f64).ln()).sum()
}
