package plan

import (
	"fmt"
	"io"
	"math"

	"urr.guru/pkg/spread"
)

// Extras returns requests that Requests leaves out, since not every opening has them.
func (o Opening) Extras() []Requests {
	if o.Kind != Sale {
		return nil
	}
	return []Requests{{"wait in a lobby", over(float64(o.Visitors), o.lobbySeconds()), []Cost{cost("gateway", "gateway", "serving")}}}
}

// lobbySeconds returns the time between two polls of a visitor in a lobby. A larger crowd, whose turns
// after the lobby are spread, polls less often.
func (o Opening) lobbySeconds() int64 {
	return max(LobbySeconds, int64(math.Round(2*spread.Over(o.Visitors, o.askRate()).Seconds())))
}

// askRate returns at what rate a crowd asks for positions that waits for the start: as it would
// come, but within the longest spread of a room.
func (o Opening) askRate() float64 {
	return max(o.PerSecond(), float64(o.Visitors)/spread.Longest.Seconds())
}

// Conditions returns what the plan of an opening takes for granted, a sentence each.
func (o Opening) Conditions() []string {
	all := []string{
		"The files of the pages come from a CDN, and TLS ends before the gateway: neither is counted, nor are new connections.",
		"Visitors have IPv4 addresses. The limits count more networks of an IPv6 address, which costs their Redis up to half as much again.",
		fmt.Sprintf("Visitors have signed in before: what %s sign-ins per second cost is not measured. They do not repeat what was refused.",
			Number(o.PerSecond())),
	}
	switch o.Kind {
	case Sale:
		return append([]string{
			"The table is warm: vwr migrate --warm.",
			fmt.Sprintf(`The room is activated with "expected": %d and "askRate": %.0f, if the crowd waits for its start.`, o.Visitors, math.Ceil(o.askRate())),
			fmt.Sprintf("There is neither a lobby nor a presale, which asks ticket about %s users per second, up to 500 in a call: that is not measured.",
				Number(o.Line()/askSeconds)),
			fmt.Sprintf("Tier 1 lets in %d per second, so all have had their turn after %s h.", Admitted, Number(float64(o.Visitors)/Admitted/3600)),
		}, all...)
	case Promotion:
		return append([]string{
			"The table is warm: ingest migrate --warm.",
			fmt.Sprintf("Of the read units %s are of the passes over what waits. A pass takes two seconds of every %d, so at its peak they are more.",
				Number(o.swept()), SweepSeconds),
		}, all...)
	default:
		return all
	}
}

// writeConditions writes the conditions of a plan, and the requests that it leaves out.
func (f Figures) writeConditions(w io.Writer, o Opening) {
	if more := o.Extras(); len(more) > 0 {
		f.writeRequests(w, "not counted, if there are", more)
	}
	fmt.Fprint(w, "\nThis holds under these conditions:\n")
	for _, c := range o.Conditions() {
		fmt.Fprintln(w, "- "+c)
	}
}
