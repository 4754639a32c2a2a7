package app

import (
	"net/http"
	"strings"
	"time"

	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/handlers"

	gatewayv1 "urr.guru/proto/gen/urr/gateway/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// lobbyRoutes are the routes of lobbies; those of shuffles exist with tier 1 only.
func (e *endpoints) lobbyRoutes() []*edge.Route {
	routes := []*edge.Route{{
		ID: "vwr.lobby", Method: http.MethodPost, Pattern: "/vwr-api/vwr/lobby/{event_id}", Who: edge.User, Handler: e.rooms.Join,
		Issues: true, Timeout: 12 * time.Second, Body: edge.JSONBody(&gatewayv1.Nothing{}), Answer: &vwrv1.Joined{},
		Summary: "Joins the lobby of a waiting room, once per user",
		Description: "At the start everyone in the lobby gets a position in random order, before later arrivals. Until then `check` with the ticket " +
			"answers `phase: \"LOBBY\"`; afterwards it has the position and a new ticket. The receipt proves the entry to third parties. Repeated, also " +
			"after the lobby has closed, the answer is the same.\n\nErrors: UNAUTHENTICATED, VWR_INACTIVE, LOBBY_CLOSED (it is not open, or there is " +
			"none), OVERLOADED.",
	}}
	if e.shuffles == nil {
		return routes
	}
	row := func(id, pattern string, handler edge.Handler) *edge.Route {
		return &edge.Route{ID: id, Method: http.MethodGet, Pattern: pattern, Who: edge.Public, Handler: handler, Poll: true, Timeout: handlers.DrawTimeout}
	}
	document := row("vwr.shuffle", "/vwr-api/vwr/shuffle/{event_id}", e.shuffles.Document)
	document.Summary = "What is public of the shuffle of a lobby"
	document.Description = "A document as that of `/api/v1/draws/{eventId}`, with `orderHash` instead of winners. Together with its entries, anybody can " +
		"verify it: `verify shuffle` of this address. It is that of the event's latest lobby; `/rounds` lists all.\n\nErrors: LOBBY_NOT_FOUND."
	entries := row("vwr.shuffle.entries", "/vwr-api/vwr/shuffle/{event_id}/entries", e.shuffles.Entries)
	entries.Summary = "The entries of a lobby: request ids of 16 bytes each, sorted"
	entries.Description = "`application/octet-stream` with an `ETag`; a `Range` of bytes is served alone. It is there from phase ROOT on.\n\n" +
		"Errors: LOBBY_NOT_FOUND, RANGE_NOT_SATISFIABLE (its `Content-Range` has the size)."
	proof := row("vwr.shuffle.proof", "/vwr-api/vwr/shuffle/{event_id}/proof/{request_id}", e.shuffles.Proof)
	proof.Summary, proof.Answer = "Where an entry of a lobby is in the root, and, after the shuffle, which position it has", &vwrv1.ShuffleProof{}
	proof.Description, proof.Example = "Errors: LOBBY_NOT_FOUND (also: no such entry).", drawProofExample
	routes = append(routes, document, entries, proof)
	for _, latest := range []*edge.Route{document, entries, proof} {
		routes = append(routes, ofRound(*latest))
	}
	return routes
}

// ofRound is a route of an event's latest shuffle for that of any round.
func ofRound(r edge.Route) *edge.Route {
	r.ID = strings.Replace(r.ID, "vwr.shuffle", "vwr.shuffle.round", 1)
	r.Pattern = strings.Replace(r.Pattern, "{event_id}", "{event_id}/rounds/{round}", 1)
	r.Summary += ", of one round"
	return &r
}
