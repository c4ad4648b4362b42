//! The connected clients.

use std::collections::HashMap;

use crate::client::Client;

/// The clients by the token of their connection. The one whose requests are being executed is out
/// of its place meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    places: Vec<Option<Box<Client>>>,
    /// The token of each client, by its number.
    by_id: HashMap<u64, usize>,
}

impl Clients {
    /// Takes a place for a client that connects.
    pub(crate) fn insert(&mut self, token: usize, client: Client) {
        if self.places.len() <= token {
            self.places.resize_with(token + 1, || None);
        }
        self.by_id.insert(client.id, token);
        self.places[token] = Some(Box::new(client));
    }

    /// Removes a client that is gone.
    pub(crate) fn remove(&mut self, token: usize) -> Option<Box<Client>> {
        let client = self.places.get_mut(token)?.take()?;
        self.by_id.remove(&client.id);
        Some(client)
    }

    /// The token of the client of this number.
    pub(crate) fn place_of(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// Takes a client out to execute its requests, until [`Clients::put_back`].
    pub(crate) fn take_out(&mut self, token: usize) -> Option<Box<Client>> {
        self.places.get_mut(token)?.take()
    }

    /// Puts back a client that [`Clients::take_out`] took.
    pub(crate) fn put_back(&mut self, token: usize, client: Box<Client>) {
        self.places[token] = Some(client);
    }

    pub(crate) fn get(&self, token: usize) -> Option<&Client> {
        self.places.get(token)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, token: usize) -> Option<&mut Client> {
        self.places.get_mut(token)?.as_deref_mut()
    }

    /// How many places there are.
    pub(crate) fn count(&self) -> usize {
        self.places.len()
    }

    /// All clients that are in their place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Client> {
        self.places.iter().flatten().map(|client| &**client)
    }

    /// All clients that are in their place, with their tokens.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Client)> {
        let places = self.places.iter_mut().enumerate();
        places.filter_map(|(token, place)| place.as_deref_mut().map(|client| (token, client)))
    }
}
