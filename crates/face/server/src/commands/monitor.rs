//! MONITOR: the commands of all clients.

use crate::call::Call;
use crate::client::Client;
use crate::failure::Outcome;
use crate::service::Service;

/// From now on, the client gets a line for each command. A second request is not even answered, as by Redis.
pub(super) fn monitor(call: &mut Call<'_>) -> Outcome {
    if call.client.is_monitor {
        return Ok(());
    }
    call.client.is_monitor = true;
    call.service.subscribers.add_monitor(call.client.place);
    call.reply().ok();
    Ok(())
}

/// Lets a client get no more lines.
pub(crate) fn leave(service: &mut Service, client: &mut Client) {
    if std::mem::take(&mut client.is_monitor) {
        service.subscribers.remove_monitor(client.place);
    }
}
