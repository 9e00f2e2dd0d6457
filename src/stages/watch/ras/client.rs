//! Asks NCCL's RAS for the state of a job, as `ncclras` does: a few lines over a socket, and the answer up to its
//! end. Nothing is changed in the job.
//!
//! ```text
//! > CLIENT PROTOCOL 2        < SERVER PROTOCOL 2
//! > TIMEOUT 5                < OK
//! > SET FORMAT json          < OK, or ERROR: Unknown command before NCCL 2.28.7
//! > VERBOSE STATUS           < the answer; the server closes the connection
//! ```
//!
//! From `src/ras/client_support.cc` and `src/ras/client.cc` of NCCL 2.24 to 2.30.

use super::limits::{
    ANSWER_WAIT, CONNECT_WAIT, MAX_ANSWER_BYTES, MAX_REPLY_BYTES, RAS_PORT, RAS_WAIT_SECONDS,
};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};

/// Where a process of the job listens for RAS's clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RasAddress {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl RasAddress {
    /// Reads `HOST`, `HOST:PORT`, `:PORT`, `[fe80::1]:PORT` or `fe80::1`; a missing part is that of NCCL.
    ///
    /// # Errors
    /// The port is no number.
    pub fn parse_address(text: &str) -> Result<RasAddress, String> {
        let is_bare_v6 = text.matches(':').count() > 1 && !text.starts_with('[');
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !is_bare_v6 && !host.ends_with("::") && !port.ends_with(']') => {
                let number = port.parse();
                (host, number.map_err(|_| format!("{port} is not a port"))?)
            }
            _ => (text, RAS_PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Ok(RasAddress {
            host: match host {
                "" => "localhost".to_owned(),
                host => host.to_owned(),
            },
            port,
        })
    }
}

impl std::fmt::Display for RasAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Asks for the state of the job: JSON, or text where NCCL is older than 2.28.7.
///
/// # Errors
/// Nothing listens there, it does not speak RAS's protocol, or it does not answer in time.
pub fn ask_ras(address: &RasAddress) -> io::Result<Vec<u8>> {
    let stream = connect(address)?;
    let mut stream = BufReader::new(stream);
    let hello = exchange(&mut stream, "CLIENT PROTOCOL 2")?;
    if !hello.starts_with("SERVER PROTOCOL ") {
        let why =
            format!("expected NCCL's RAS, which begins with SERVER PROTOCOL, found {hello:?}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    exchange(&mut stream, &format!("TIMEOUT {RAS_WAIT_SECONDS}"))?;
    // An older server reports an unknown command, and answers with text.
    exchange(&mut stream, "SET FORMAT json")?;
    stream.get_mut().write_all(b"VERBOSE STATUS\n")?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
    match answer.is_empty() {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => Ok(answer),
    }
}

fn connect(address: &RasAddress) -> io::Result<TcpStream> {
    let mut failed = None;
    for at in (&*address.host, address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&at, CONNECT_WAIT) {
            Ok(stream) => {
                stream.set_read_timeout(Some(ANSWER_WAIT))?;
                stream.set_write_timeout(Some(CONNECT_WAIT))?;
                return Ok(stream);
            }
            Err(e) => failed = Some(e),
        }
    }
    Err(failed.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
}

/// Sends a line and returns the reply to it.
fn exchange(stream: &mut BufReader<TcpStream>, line: &str) -> io::Result<String> {
    stream.get_mut().write_all(format!("{line}\n").as_bytes())?;
    let mut reply = Vec::new();
    stream
        .by_ref()
        .take(MAX_REPLY_BYTES)
        .read_until(b'\n', &mut reply)?;
    match reply.is_empty() {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => Ok(String::from_utf8_lossy(&reply).trim_end().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_lack_its_host_or_port() {
        for (text, shown) in [
            ("", "localhost:28028"),
            ("node1", "node1:28028"),
            ("node1:4000", "node1:4000"),
            (":4000", "localhost:4000"),
            ("10.0.0.1:1", "10.0.0.1:1"),
            ("[fe80::1]:4000", "[fe80::1]:4000"),
            ("fe80::1", "[fe80::1]:28028"),
            ("[::1]", "[::1]:28028"),
        ] {
            let address = RasAddress::parse_address(text).unwrap();
            assert_eq!(address.to_string(), shown, "{text}");
        }
        assert!(RasAddress::parse_address("node1:port").is_err());
        assert!(RasAddress::parse_address("node1:70000").is_err());
    }
}
