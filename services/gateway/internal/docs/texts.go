package docs

import (
	"cmp"
	"strings"

	"urr.guru/services/gateway/internal/edge"
)

// routeText is what the reference says about a hand-written route.
type routeText struct{ summary, description string }

// Annotate sets the texts of hand-written routes and the example responses of all routes, for the API
// reference. The texts of pass-through routes are in the generated document.
func Annotate(routes []*edge.Route) {
	for _, r := range routes {
		key := cmp.Or(r.RPC, r.ID)
		// Each shuffle route exists twice, for the latest lobby and for a given round, with one text.
		suffix, ofRound := strings.CutPrefix(key, "vwr.shuffle.round")
		if ofRound {
			key = "vwr.shuffle" + suffix
		}
		t := texts[key]
		r.Summary, r.Description, r.Example = t.summary, t.description, examples[key]
		if ofRound {
			r.Summary += ", of one round"
		}
	}
}

// shedText describes the polls of which a share is refused under overload.
const shedText = "While the platform is overloaded a share of these polls is refused (OVERLOADED): ask again after `Retry-After`; no place is lost."

// texts are the texts of hand-written routes, by the id of the route.
var texts = map[string]routeText{
	"auth.me": {summary: "Who is signed in, and until when"},
	"auth.logout": {
		summary: "Ends the session of this browser",
		description: "A session that began at the identity provider is answered with 200 and `{\"redirectTo\": …}`, where the browser ends the provider's session. " +
			"A browser whose session has ended is answered in the same way, and may ask again.",
	},
	"sessions.revoke": {summary: "Ends one session, or all of a user's, at all gateways"},
	"auth.login": {
		summary:     "Leads to the sign-in page of the identity provider",
		description: "`?returnTo=` is the path of this site where the browser goes on afterwards. When the provider does not answer, it leads to `/login`, which says so. At another host name than the gateway's own it leads there first.",
	},
	"auth.callback": {
		summary:     "Where the identity provider sends the browser back to",
		description: "Begins a session and leads to `returnTo`. It takes part only in an attempt that this browser began (cookie `urr-sign-in-…`), once and within 15 minutes; every failure leads to `/login`, which says what happened.",
	},
	"auth.dev-login": {summary: "Signs in as anybody (development only)"},
	"tickets.qr": {
		summary:     "The code of a ticket as a QR image",
		description: "Errors: as GET /api/v1/my/tickets/{ticketId}, and NOT_VALID (metadata why: the status of a ticket that has no code).",
	},
	"admin.qr": {
		summary:     "The code of a ticket that was given away and that nobody has claimed yet, as a QR image",
		description: "Errors: as GET /api/v1/admin/tickets/{ticketId}, and NOT_VALID (metadata why: the status of a ticket that has no code).",
	},
	"vwr.assign": {
		summary: "Gives the visitor a position, the same again when repeated",
		description: "Errors: VWR_INACTIVE, LOBBY_OPEN (before the start; `asksAt` is when this visitor should ask, in epoch ms, and `opensAt` the start), ASK_LATER (the " +
			"start was at `opensAt`, and a large crowd waited for it: each visitor asks at an own time, this one at `asksAt`; asking earlier gains nothing, and an id " +
			"that was made after the start waits longest), UNAUTHENTICATED (the event wants a signed-in user, as whose position it " +
			"counts), VISITOR_REQUIRED (a proof without the cookie that its challenge has set), PROOF_REQUIRED (a proof of work is owed: the event asks for one, or many " +
			"new visitors come from this address; `challengeUrl` is where the challenge is, and a proof that was refused is of no use any more), " +
			"CAPTCHA_REQUIRED (`captchaUrl` is the page of the test), OVERLOADED.",
	},
	"vwr.challenge": {
		summary: "The challenge of the proof of work for a position",
		description: "Find a nonce of 1–32 of `[A-Za-z0-9_-]` such that the SHA-256 of `<challenge>.<nonce>` begins with `difficulty` zero bits, and " +
			"send that as `x-vwr-proof` to assign. The challenge is for this visitor and one position, and lasts 5 minutes. If more is owed later, it " +
			"still counts for a minute after its issue.\n\nErrors: as assign, but for PROOF_REQUIRED.",
	},
	"vwr.check":          {summary: "Whether the position is served; then with the tier-1 token", description: shedText},
	"vwr.status":         {summary: "How long the waiting room's line is", description: shedText},
	"vwr.serving":        {summary: "The serving counter, for shared caches", description: shedText},
	"queue.check":        {summary: "Joins the line or finds the place in it"},
	"queue.status":       {summary: "The place in the line", description: shedText},
	"queue.heartbeat":    {summary: "Keeps the slot and renews the entry token"},
	"queue.leave":        {summary: "Ends the slot of the entry token sent, else the waiting place"},
	"seats.layout":       {summary: "The seat map's layout"},
	"seats.availability": {summary: "Which seats are free: a bitmap, or JSON by Accept"},
	"seats.changes": {
		summary: "Which seats are taken and freed, as it happens",
		description: "`text/event-stream` ([SSE](https://html.spec.whatwg.org/multipage/server-sent-events.html)). The event `reset` has all seats, as " +
			"`/availability` answers in JSON; then messages have the changes since the event before, their data as below. Seats are " +
			"numbered as in the bitmap. The `id` of an event is the ETag of that JSON, without quotes. The stream ends with the entry token (connect again " +
			"with a new one), when the gateway stops, and, with an event `end` that has the `code`, when the session does or the seats cannot be read. " +
			"Whoever is refused polls `/availability`.\n\nErrors: UNAUTHENTICATED, QUEUE_TOKEN_REQUIRED, EVENT_NOT_FOUND, OVERLOADED (too many readers at this " +
			"gateway), RATE_LIMITED (too many streams of this user).",
	},
	"seats.reserve":     {summary: "Holds the named seats, all or none"},
	"reservations.best": {summary: "Holds the best seats available, or general admissions"},
	"payments.webhook":  {summary: "A payment provider's call; its signature is checked"},
	"payments.return": {
		summary: "Where a provider's page sends the buyer back",
		description: "Its parameters prove the payment, also without a session, and may be repeated. The payment is charged with the key that they have, " +
			"soon after; the checkout, to which this redirects, shows the outcome. With the parameter looks the answer is the state of the payment, " +
			"and nothing is stored.\n\nErrors: PROVIDER_UNKNOWN, PAYMENT_NOT_FOUND.",
	},
	"admin.live": {
		summary: "What happens in an event now, each second",
		description: "`text/event-stream` ([SSE](https://html.spec.whatwg.org/multipage/server-sent-events.html)): a message each second, its data as below. A " +
			"figure is absent while its service does not answer, or does not know the event; it is never guessed. The stream ends after ten " +
			"minutes, when the gateway stops, and, with an event `end` that has the `code`, when the session does; an `EventSource` connects " +
			"again by itself.\n\nErrors: UNAUTHENTICATED, ROLE_REQUIRED, OVERLOADED (too many listeners at this gateway).",
	},
	"vwr.lobby": {
		summary: "Joins the lobby of a waiting room, once per user",
		description: "At the start everyone in the lobby gets a position in random order, before later arrivals. Until then `check` with the ticket " +
			"answers `phase: \"LOBBY\"`; afterwards it has the position and a new ticket. The receipt proves the entry to third parties. Repeated, also " +
			"after the lobby has closed, the answer is the same.\n\nErrors: UNAUTHENTICATED, VWR_INACTIVE, LOBBY_CLOSED (it is not open, or there is " +
			"none), OVERLOADED.",
	},
	"vwr.shuffle": {
		summary: "What is public of the shuffle of a lobby",
		description: "A document as that of `/api/v1/draws/{eventId}`, with `orderHash` instead of winners. Together with its entries, anybody can " +
			"verify it: `verify shuffle` of this address. It is that of the event's latest lobby; `/rounds` lists all.\n\nErrors: LOBBY_NOT_FOUND.",
	},
	"vwr.shuffle.entries": {
		summary: "The entries of a lobby: request ids of 16 bytes each, sorted",
		description: "`application/octet-stream` with an `ETag`; a `Range` of bytes is served alone. It is there from phase ROOT on.\n\n" +
			"Errors: LOBBY_NOT_FOUND, RANGE_NOT_SATISFIABLE (its `Content-Range` has the size).",
	},
	"vwr.shuffle.proof": {
		summary:     "Where an entry of a lobby is in the root, and, after the shuffle, which position it has",
		description: "Errors: LOBBY_NOT_FOUND (also: no such entry).",
	},
	"promotions.apply": {
		summary: "Applies, once per user and promotion",
		description: "The request is stored, and settled later: `Location` has its status, which may have changed after `Retry-After` seconds. " +
			"Whoever has applied already gets the same request with `duplicate: true`; with the same `Idempotency-Key` it is the same application, so " +
			"`duplicate` is false. With `spreadMs` each user applies at an own time, which is random for each promotion.\n\n" +
			"Errors: UNAUTHENTICATED, VWR_TOKEN_REQUIRED, PROMOTION_NOT_FOUND, ASK_LATER (this user's time is `asksAt`, in epoch ms, and the " +
			"opening `opensAt`; asking earlier gains nothing), NOT_OPEN, WITHDRAWN_TOO_OFTEN (three times), " +
			"OVERLOADED (too many requests to the promotion are not settled yet), IDEMPOTENCY_KEY_INVALID.",
	},
	"draws.document": {
		summary: "What is public of a lottery's draw",
		description: "Together with its entries, anybody can verify it: `verify draw` of this address, or the page of the draw. `commitment` and " +
			"`statement` are signed texts, served verbatim. The result, with the seed, is there from `announcedAt` on.\n\n" +
			"Errors: DRAW_NOT_FOUND (no promotion, or first come), DRAW_EXPIRED (90 days after its end).",
	},
	"draws.entries": {
		summary: "The entries of a draw: request ids of 16 bytes each, sorted",
		description: "`application/octet-stream` with an `ETag`; a `Range` of bytes is served alone. The file never changes once it is there, from " +
			"phase ROOT on.\n\nErrors: DRAW_NOT_FOUND, ENTRIES_NOT_PUBLIC, DRAW_EXPIRED, RANGE_NOT_SATISFIABLE (its `Content-Range` has the size).",
	},
	"draws.chunk": {
		summary: "A chunk of these entries: 20,000 ids",
		description: "`application/octet-stream` with an `ETag`, 320,000 bytes; from 0 on. The last chunk is shorter, and empty behind it. So verifiers " +
			"read the entries one chunk after another, and caches keep each: it never changes once it is there.\n\n" +
			"Errors: INVALID_ID, DRAW_NOT_FOUND, ENTRIES_NOT_PUBLIC, DRAW_EXPIRED, RANGE_NOT_SATISFIABLE.",
	},
	"promotions.winners": {
		summary: "Who has a place, as CSV",
		description: "`text/csv` with the header `rank,requestId,userId`: the winners of an announced lottery by their rank, or the successful " +
			"requests to a first-come promotion so far by their place in the queue. A cell that a spreadsheet would run as a formula, or that " +
			"begins with an apostrophe, has an apostrophe in front.\n\nErrors: UNAUTHENTICATED, ROLE_REQUIRED, PROMOTION_NOT_FOUND, ANNOUNCEMENT_EARLY, " +
			"UNAVAILABLE (the latest successful requests are not listed yet).",
	},
	"entitlements.put": {
		summary: "Replaces a list of users who may buy in a presale",
		description: "The body is `text/csv` of at most 64 MiB. Its header names a column `userId`, a column `email`, or both; other columns, and lines without " +
			"content, are ignored. It may be as a spreadsheet writes it: in UTF-8, in UTF-16 with a byte order mark or in CP949, with commas, " +
			"semicolons or tabs. An e-mail address entitles those of whom the identity provider has verified it, whatever the case of its letters. The file " +
			"replaces the list as a whole; one with an invalid line replaces nothing.\n\nErrors: UNAUTHENTICATED, ROLE_REQUIRED, EVENT_NOT_FOUND, " +
			"INVALID_ID, BODY_TOO_LARGE, INVALID_REQUEST (`errors` names up to 20 lines).",
	},
	"entitlements.version": {
		summary: "The users of a version of a list as CSV",
		description: "`text/csv` with the header `userId,email`: the users of the current version, or of one that was replaced, sorted, each once. A file " +
			"that was uploaded may have had other columns, and lines in another order, so its digest is another.\n\nErrors: UNAUTHENTICATED, " +
			"ROLE_REQUIRED, INVALID_REQUEST, UPLOAD_NOT_FOUND (there is no such version).",
	},
	"stats.series": {
		summary:     "The series of an event as CSV",
		description: "`text/csv` of what `/api/v1/stats/events/{eventId}/series` answers to the same query; the header has the names of its members.",
	},
	"admin.series": {
		summary: "The series of an event as CSV, with all that is counted",
		description: "`text/csv` of what `/api/v1/admin/stats/events/{eventId}/series` answers to the same query. Money is in one line per currency: the " +
			"counts are in the first and zero in the others, so that columns can be added up. The members of `revenue` have the prefix `revenue`." +
			"\n\nErrors: UNAUTHENTICATED, ROLE_REQUIRED.",
	},
	"admin.days": {
		summary: "The figures by day as CSV",
		description: "`text/csv` of all that `/api/v1/admin/stats/days` answers to the same `from`, `to` and `eventId`, with the columns of an event's " +
			"series as CSV.\n\nErrors: UNAUTHENTICATED, ROLE_REQUIRED.",
	},
	"my.checkout": {
		summary: "A reservation of the caller and one of its payments",
		description: "For the page of a checkout, which polls it. `payment` is there while the reservation is `HELD` or `PAYING`.\n\n" +
			"Errors: UNAUTHENTICATED, RESERVATION_NOT_FOUND, PAYMENT_NOT_FOUND (also for one of another reservation).",
	},
	"rewards.attend": {
		summary: "Records today's attendance, the same again when repeated",
		description: "Today is the day in Korea. What the attendance earns is paid afterwards; the rewards in `entries` of " +
			"`GET /api/v1/rewards/{eventId}/me` show how far that is.\n\nErrors: UNAUTHENTICATED, VWR_TOKEN_REQUIRED, CAMPAIGN_NOT_FOUND, NOT_OPEN.",
	},
	"rewards.draw": {
		summary: "Draws a prize, the same again when repeated",
		description: "A prize of kind NONE is a blank. Without `prize` all prizes were gone; the draw counts all the same.\n\n" +
			"Errors: UNAUTHENTICATED, VWR_TOKEN_REQUIRED, CAMPAIGN_NOT_FOUND, NOT_OPEN, DRAWS_USED_UP, IDEMPOTENCY_KEY_REQUIRED, " +
			"IDEMPOTENCY_KEY_INVALID, IDEMPOTENCY_IN_PROGRESS.",
	},
}
