package chaos_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/scripts/awsproxy"
	"urr.guru/scripts/internal/tables"
	"urr.guru/scripts/platform"
)

var promotionReplicas = []replicaID{
	{platform.Ingest, 0}, {platform.Ingest, 1}, {platform.Worker, 0}, {platform.Worker, 1}, {platform.Worker, 2},
}

// wrongClocks are the replicas' clock errors, of up to five seconds.
var wrongClocks = map[replicaID]string{
	{platform.Ingest, 0}: "-5s", {platform.Ingest, 1}: "5s",
	{platform.Worker, 0}: "5s", {platform.Worker, 1}: "-5s", {platform.Worker, 2}: "0s",
}

// acceptPoints are failpoints between writes of the ingest service, settlePoints of the worker.
var (
	acceptPoints = []string{"ingest.stamped", "ingest.accepted", "ingest.sent", "ingest.queued"}
	settlePoints = []string{"worker.decided", "worker.settled", "worker.changed", "worker.published"}
)

// storeFaults chooses the fault of a call to DynamoDB. Faults that count as a request's failed
// attempt are so rare that no request fails five times.
func (p *promotions) storeFaults(c awsproxy.Call) awsproxy.Fault {
	transaction := c.Name == "TransactWriteItems"
	switch {
	case p.percent(1):
		return awsproxy.Fault{Cut: true}
	case p.percent(1):
		return awsproxy.Fault{Lost: true}
	case p.percent(1):
		return awsproxy.Unavailable()
	case p.percent(1):
		return awsproxy.Throttled()
	case transaction && p.percent(5):
		return awsproxy.Canceled(c, p.below(max(1, len(c.Items()))), awsproxy.Conflict)
	case transaction && p.percent(1):
		return awsproxy.Canceled(c, p.below(max(1, len(c.Items()))), awsproxy.Capacity)
	case transaction && strings.HasPrefix(c.Caller, platform.Worker) && p.percent(12):
		return awsproxy.Canceled(c, c.FindItem("REQ#", "META"), awsproxy.Validation)
	default:
		return awsproxy.Fault{}
	}
}

// queueFaults chooses the fault of a call to SQS.
func (p *promotions) queueFaults(c awsproxy.Call) awsproxy.Fault {
	switch {
	case p.percent(2):
		return awsproxy.Fault{Cut: true}
	case p.percent(2):
		return awsproxy.Fault{Lost: true}
	case p.percent(1):
		return awsproxy.Unavailable()
	case c.Name == "SendMessageBatch" && p.percent(5):
		return awsproxy.Fault{Refuse: true}
	case c.Name == "ReceiveMessage" && p.percent(15):
		return awsproxy.Fault{Repeat: 1 + p.below(2)}
	default:
		return awsproxy.Fault{}
	}
}

// disturb injects size.faults faults, and then revives and kills replicas until users are answered.
func (p *promotions) disturb(a *applicants, size promotionSize) {
	steps := p.disturbances()
	for i := range min(size.faults, len(steps)) {
		p.revive()
		steps[i]()
		p.pause(100*time.Millisecond + time.Duration(p.below(int(300*time.Millisecond))))
	}
	for n := 0; ; n++ { // while the remaining users apply
		select {
		case <-a.done:
			return
		case <-time.After(time.Second):
			p.revive()
			if size.faults > len(steps) {
				p.kill(p.anyReplica(), "")
			}
		}
	}
}

// disturbances returns a death at each failpoint, three random ones, and outages, in random order.
func (p *promotions) disturbances() []func() {
	var steps []func()
	for _, point := range slices.Concat(acceptPoints, settlePoints) {
		service, _, _ := strings.Cut(point, ".")
		steps = append(steps, func() {
			id := replicaID{service, p.below(p.Service(service).Replicas())}
			p.kill(id, point+"@"+string(rune('1'+p.below(3)))+"=exit")
		})
	}
	for range 3 {
		steps = append(steps, func() { p.kill(p.anyReplica(), "") })
	}
	steps = append(steps,
		func() { p.outage(p.SQS(), p.queueFaults, 2*time.Second) },
		func() { p.outage(p.DynamoDB(), p.storeFaults, time.Second) },
	)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	return steps
}

// outage cuts all calls to a backend for a while.
func (p *promotions) outage(proxy *awsproxy.Proxy, usual awsproxy.Rule, duration time.Duration) {
	proxy.Use(func(awsproxy.Call) awsproxy.Fault { return awsproxy.Fault{Cut: true} })
	p.pause(duration)
	proxy.Use(usual)
}

func (p *promotions) anyReplica() replicaID {
	return promotionReplicas[p.below(len(promotionReplicas))]
}

// clock returns the failpoint that sets a replica's clock.
func (p *promotions) clock(id replicaID) string {
	if skew := p.skews[id]; skew != "" {
		return "clock=skew:" + skew + ";"
	}
	return ""
}

// kill ends a replica by SIGKILL and starts it again, with a failpoint if one is given.
func (p *promotions) kill(id replicaID, failpoint string) {
	s := p.Service(id.service)
	if s.Running(id.replica) {
		s.Kill(id.replica)
		p.deaths["kill -9 "+id.service]++
		delete(p.failpoints, id) // the failpoint was not reached
	}
	p.begin(id, failpoint)
}

// begin starts a replica that is down, with its wrong clock and a failpoint if one is given.
func (p *promotions) begin(id replicaID, failpoint string) {
	p.countDeath(id)
	p.failpoints[id] = failpoint
	p.Service(id.service).RestartWithFailpoints(id.replica, p.clock(id)+failpoint)
}

// revive starts the replicas that have died, and reports whether there were any.
func (p *promotions) revive() (died bool) {
	for _, id := range promotionReplicas {
		if !p.Service(id.service).Running(id.replica) {
			p.begin(id, "")
			died = true
		}
	}
	return died
}

// countDeath counts the death of a replica if it died at its failpoint.
func (p *promotions) countDeath(id replicaID) {
	if point, _, _ := strings.Cut(p.failpoints[id], "@"); point != "" && !p.Service(id.service).Running(id.replica) {
		p.deaths[point]++
	}
	delete(p.failpoints, id)
}

// endLeases ends the leases of all processes at once, dead or alive. Leases only avoid duplicate
// work, and last for 15 s.
func (p *promotions) endLeases(names ...string) {
	p.t.Helper()
	for i := range 8 {
		names = append(names, fmt.Sprint("sweep-", i), fmt.Sprint("announce-", i))
	}
	w := p.Wiring()
	client := tables.Open(w)
	for _, name := range names {
		_, err := client.DeleteItem(p.t.Context(), &dynamodb.DeleteItemInput{
			TableName: aws.String(w.DynamoDBPrefix + "-AsyncEventTable"),
			Key:       dynamo.Item{"PK": dynamo.String("LEASE#" + name), "SK": dynamo.String("LEASE")},
		})
		require.NoError(p.t, err)
	}
}
