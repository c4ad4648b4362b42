//! Replies that tell of nothing that waits for a sync leave before it; all others leave behind it.

use std::io::ErrorKind;

use crate::common::gated::Gated;
use crate::common::{Client, Running, set_threads};

/// Whether the server has sent something that the client has not read.
fn has_reply(client: &mut Client) -> bool {
    let socket = client.socket.get_mut();
    socket.set_nonblocking(true).unwrap();
    let peeked = socket.peek(&mut [0]);
    socket.set_nonblocking(false).unwrap();
    match peeked {
        Ok(len) => len > 0,
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_reader_waits_for_no_sync_of_others_and_what_is_not_durable_does() {
    set_threads(1);
    let (db, gates, folder) = Gated::database(1, |_| {});
    gates.open(0);
    let server = Running::on(db, |config| config.threads = Some(1)).within(folder);
    let [mut first, mut writer, mut reader, mut late] = [(); 4].map(|()| server.client());
    // Connections that changed keys when they were served last come behind readers: `writer` and `late` do.
    first.check(&[("SET seen old", "+OK")]);
    reader.check(&[("GET seen", "\"old\"")]);
    writer.check(&[("SET a 1", "+OK")]);
    late.check(&[("SET b 1", "+OK")]);
    for round in 0..20 {
        let old = if round == 0 { "\"old\"".to_owned() } else { format!("\"{}\"", round - 1) };
        let new = format!("\"{round}\"");
        gates.hold_syncs();
        first.send_line("SET other 1");
        gates.wait_for_sync();
        // They arrive while the server waits, and are served in one turn.
        writer.send_line(&format!("SET seen {round}"));
        reader.send_line("GET seen");
        late.send_line("GET seen");
        gates.let_sync_go();
        assert_eq!(first.reply(), "+OK");
        gates.wait_for_sync();
        assert_eq!(reader.reply(), old, "it leaves before the sync");
        assert!(!has_reply(&mut writer) && !has_reply(&mut late), "they wait for the sync");
        gates.let_sync_go();
        assert_eq!((writer.reply(), late.reply()), ("+OK".to_owned(), new));
        gates.let_syncs_go();
        late.check(&[("SET b 1", "+OK")]);
    }
}
