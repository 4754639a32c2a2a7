package e2e_test

import "net/http"

// class is a kind of bad input; every route answers for every class.
type class string

const (
	unknownMember class = "unknown member"
	wrongType     class = "wrong type"
	missingMember class = "missing member"
	longID        class = "over-long id"
	largeBody     class = "large body"
	badUTF8       class = "bad UTF-8"
	unknownEvent  class = "unknown event"
	expiredToken  class = "expired token"
	forgedToken   class = "forged token"
	wrongUser     class = "wrong user"
)

var classes = []class{
	unknownMember, wrongType, missingMember, longID, largeBody, badUTF8, unknownEvent, expiredToken, forgedToken, wrongUser,
}

type want struct {
	status int
	code   string
}

var (
	invalid     = want{http.StatusBadRequest, "INVALID_REQUEST"}
	invalidID   = want{http.StatusBadRequest, "INVALID_ID"}
	noEvent     = want{http.StatusNotFound, "EVENT_NOT_FOUND"}
	noRoom      = want{http.StatusNotFound, "VWR_INACTIVE"}
	noPosition  = want{http.StatusNotFound, "VWR_REQUEST_UNKNOWN"}
	noEntry     = want{http.StatusForbidden, "QUEUE_TOKEN_REQUIRED"}
	notSignedIn = want{http.StatusUnauthorized, "SESSION_INVALID"}
	notAdmin    = want{http.StatusForbidden, "ROLE_REQUIRED"}
)

// inputRow says what a route needs to be asked wrongly, and what it answers where that does not follow from its description.
type inputRow struct {
	// event that its path names: the calm one unless busy.
	busy bool
	// body is valid but for what the test does to it; %s is the event or what is paid for.
	body func(w *inputWorld) string
	// required members, with the answer when one is missing.
	required map[string]want
	// long holds members that are ids, with the answer to one that is too long.
	long map[string]want
	// unknown is the answer for an event that does not exist, stranger the answer to somebody else.
	unknown, stranger want
	// none says why a class cannot be asked of this route.
	none map[class]string
}

// Reasons.
const (
	takesNoBody = "it takes no body"
	noMembers   = "its body has no members"
	isPublic    = "everybody may"
	ownOnly     = "it shows one's own only"
	noEventHere = "it names no event"
)

// without adds reasons to those of a class.
func without(reason string, of ...class) map[class]string {
	m := map[class]string{}
	for _, c := range of {
		m[c] = reason
	}
	return m
}

func and(ms ...map[class]string) map[class]string {
	all := map[class]string{}
	for _, m := range ms {
		for c, reason := range m {
			all[c] = reason
		}
	}
	return all
}

var (
	bodiless  = without(takesNoBody, unknownMember, wrongType, missingMember, largeBody)
	empty     = without(noMembers, wrongType, missingMember)
	public    = without(isPublic, expiredToken, forgedToken, wrongUser)
	own       = without(ownOnly, wrongUser)
	uncounted = without("where nothing has happened yet all counts are 0", unknownEvent)
	eventless = without(noEventHere, unknownEvent)
	listOfOwn = and(without(takesNoBody, unknownMember, missingMember, largeBody), own, eventless, without("it names no id", longID))
)

const saleBody = `{"title":"T","artist":"A","venue":"V","startsAt":"2030-01-01T10:00:00Z","salesOpenAt":"2029-01-01T10:00:00Z",
	"salesCloseAt":"2029-12-31T10:00:00Z","seating":"GENERAL","currency":"KRW","maxPerUser":4,"sections":[{"section":"A","price":1000,"capacity":10}]}`

var saleNeeds = map[string]want{
	"title": invalid, "startsAt": invalid, "salesOpenAt": invalid, "salesCloseAt": invalid, "seating": invalid, "currency": invalid, "maxPerUser": invalid,
	"sections": invalid,
}

func text(body string) func(*inputWorld) string { return func(*inputWorld) string { return body } }

// inputRows has a row for every route of the reference; a route without one fails the test.
var inputRows = map[string]inputRow{
	// Sign-in
	"POST /api/v1/auth/dev-login": {
		body: text(`{"userId":"somebody"}`), required: map[string]want{"userId": invalidID}, long: map[string]want{"userId": invalidID},
		none: and(public, eventless),
	},
	"GET /api/v1/auth/me":      {none: and(bodiless, own, eventless, without("it names no id", longID))},
	"POST /api/v1/auth/logout": {body: text(`{}`), none: and(empty, own, eventless, without("it names no id", longID))},

	// Events and seats
	"GET /api/v1/events":                       {none: and(without(takesNoBody, unknownMember, missingMember, largeBody), public, eventless, without("it names no id", longID))},
	"GET /api/v1/events/{eventId}":             {unknown: noEvent, none: and(bodiless, public)},
	"GET /api/v1/seats/{eventId}":              {unknown: noEntry, stranger: noEntry, none: bodiless},
	"GET /api/v1/seats/{eventId}/availability": {unknown: noEntry, stranger: noEntry, none: bodiless},
	"POST /api/v1/seats/reserve": {
		body:     func(w *inputWorld) string { return `{"eventId":"` + w.calm + `","seatIds":["A-1-5"]}` },
		required: map[string]want{"eventId": invalidID, "seatIds": invalid}, long: map[string]want{"eventId": invalidID, "seatIds": invalidID},
		unknown: noEntry, stranger: noEntry,
	},
	"POST /api/v1/reservations": {
		body:     func(w *inputWorld) string { return `{"eventId":"` + w.calm + `","section":"A","quantity":1}` },
		required: map[string]want{"eventId": invalidID, "section": invalidID, "quantity": invalid}, long: map[string]want{"eventId": invalidID, "section": invalidID},
		unknown: noEntry, stranger: noEntry,
	},
	"GET /api/v1/reservations/{reservationId}":    {stranger: want{http.StatusNotFound, "RESERVATION_NOT_FOUND"}, none: and(bodiless, eventless)},
	"DELETE /api/v1/reservations/{reservationId}": {stranger: want{http.StatusNotFound, "RESERVATION_NOT_FOUND"}, none: and(bodiless, eventless)},

	// What one owns
	"GET /api/v1/my/reservations":                    {none: listOfOwn},
	"GET /api/v1/my/tickets":                         {none: listOfOwn},
	"GET /api/v1/my/reservations/{reservationId}":    {stranger: want{http.StatusNotFound, "RESERVATION_NOT_FOUND"}, none: and(bodiless, eventless)},
	"DELETE /api/v1/my/reservations/{reservationId}": {stranger: want{http.StatusNotFound, "RESERVATION_NOT_FOUND"}, none: and(bodiless, eventless)},
	"GET /api/v1/my/tickets/{ticketId}":              {stranger: want{http.StatusNotFound, "TICKET_NOT_FOUND"}, none: and(bodiless, eventless)},

	// Payments
	"POST /api/v1/payments/prepare": {
		body: func(w *inputWorld) string {
			return `{"paymentType":"reservation","referenceId":"` + w.held.ReservationID + `"}`
		},
		required: map[string]want{"paymentType": invalid, "referenceId": invalid}, long: map[string]want{"referenceId": invalid},
		stranger: want{http.StatusNotFound, "REFERENCE_NOT_FOUND"}, none: eventless,
	},
	"POST /api/v1/payments/confirm": {
		body: func(w *inputWorld) string {
			return `{"orderId":"` + w.paying.OrderID + `","paymentKey":"ok-1","amount":110000}`
		},
		required: map[string]want{"orderId": invalid, "paymentKey": invalid, "amount": invalid},
		long:     map[string]want{"orderId": invalid, "paymentKey": invalid}, stranger: want{http.StatusNotFound, "PAYMENT_NOT_FOUND"}, none: eventless,
	},
	"GET /api/v1/payments/{paymentId}": {stranger: want{http.StatusNotFound, "PAYMENT_NOT_FOUND"}, none: and(bodiless, eventless)},
	"POST /api/v1/payments/webhooks/{provider}": {
		body: text(`{"id":"n-1","type":"charge.captured"}`), stranger: want{http.StatusUnauthorized, "WEBHOOK_SIGNATURE_INVALID"},
		none: and(without("its body is the provider's, judged by its signature", unknownMember, wrongType, missingMember, expiredToken, forgedToken), eventless),
	},

	// Waiting rooms
	"POST /vwr-api/vwr/assign/{eventId}": {
		busy: true, body: text(`{}`), unknown: noRoom,
		none: and(without("its only member is ignored", missingMember), without("whoever is not known gets an id and a place of their own", expiredToken, forgedToken, wrongUser)),
	},
	"GET /vwr-api/vwr/check/{eventId}/{requestId}": {
		busy: true, unknown: noPosition, stranger: noPosition,
		none: and(bodiless, without("urr-anon is valid as long as the browser keeps it", expiredToken)),
	},
	"GET /vwr-api/vwr/status/{eventId}":      {none: and(bodiless, public, without("an event without a waiting room has an inactive one", unknownEvent))},
	"GET /vwr-api/vwr/serving/{eventId}":     {none: and(bodiless, public, without("an event without a waiting room has an inactive one", unknownEvent))},
	"POST /api/v1/queue/check/{eventId}":     {body: text(`{}`), unknown: noEvent, none: and(empty, own)},
	"GET /api/v1/queue/status/{eventId}":     {unknown: noEvent, none: and(bodiless, own)},
	"POST /api/v1/queue/heartbeat/{eventId}": {body: text(`{}`), unknown: noEvent, none: and(empty, own)},
	"POST /api/v1/queue/leave/{eventId}":     {body: text(`{}`), unknown: noEvent, none: and(empty, own)},

	// Figures
	"GET /api/v1/stats/events/{eventId}": {none: and(bodiless, public, uncounted)},

	// Operators
	"POST /api/v1/admin/vwr/activate/{eventId}":   {busy: true, body: text(`{}`), none: and(without("every member has a default", missingMember), without("waiting rooms take any event id", unknownEvent))},
	"POST /api/v1/admin/vwr/deactivate/{eventId}": {busy: true, body: text(`{}`), unknown: noRoom, none: empty},
	"POST /api/v1/admin/vwr/advance/{eventId}":    {busy: true, body: text(`{}`), unknown: noRoom, none: without("every member has a default", missingMember)},
	"GET /api/v1/admin/vwr/status/{eventId}":      {busy: true, unknown: noRoom, none: bodiless},
	"PUT /api/v1/queue/admin/threshold/{eventId}": {body: text(`{"threshold":5}`), required: map[string]want{"threshold": invalid}, unknown: noEvent},
	"GET /api/v1/queue/admin/{eventId}":           {unknown: noEvent, none: bodiless},
	"POST /api/v1/admin/events":                   {body: text(saleBody), required: saleNeeds, none: and(eventless, without("it makes its id", longID))},
	"PUT /api/v1/admin/events/{eventId}":          {body: text(saleBody), required: saleNeeds, none: without("it makes the event", unknownEvent)},
	"GET /api/v1/admin/stats/events/{eventId}":    {none: and(bodiless, uncounted)},
}
