package audit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/services/reward/sandbox"
)

// RewardsVerdict is the result of a rewards demo. Its JSON names are those of the demo's last line.
type RewardsVerdict struct {
	// Expected is the number of members who visited, and Participants the number of those who recorded
	// an attendance and took part in the prize draw.
	Expected     int `json:"wanted"`
	Participants int `json:"members"`
	// PaidTwice and Differences count findings of `reward reconcile` about this run's campaigns.
	PaidTwice int `json:"paid_twice"`
	// Unpaid counts earned rewards that are missing in the provider's ledger, or whose stored status
	// is not SUCCESS.
	Unpaid int `json:"unpaid"`
	// Overdrawn counts prizes that were given away beyond the stock, and prizes that left the stock
	// without being given away.
	Overdrawn   int `json:"overdrawn"`
	Differences int `json:"differences"`
	// Other counts all other faults. The last line contains it if it is not 0.
	Other int `json:"other"`
}

// OK reports whether every member took part once and was paid exactly the earned rewards.
func (v RewardsVerdict) OK() bool {
	return v.Participants == v.Expected && v.PaidTwice == 0 && v.Unpaid == 0 && v.Overdrawn == 0 && v.Differences == 0 && v.Other == 0
}

func (v RewardsVerdict) Line() string {
	return LastLine("demo-rewards", v.OK(), fmt.Sprintf("members=%d paid_twice=%d unpaid=%d overdrawn=%d differences=%d",
		v.Participants, v.PaidTwice, v.Unpaid, v.Overdrawn, v.Differences), v.Other)
}

// RewardsRun describes a run of the rewards demo and gives access to the stores to check.
type RewardsRun struct {
	// DB is the reward service's database. Provider is the sandbox provider, which pays the rewards.
	DB       *pgxpool.Pool
	Provider sandbox.Client
	// Reconcile runs `reward reconcile` and returns its output and exit code.
	Reconcile func(ctx context.Context) (output string, code int)

	// Attendance is the id of the campaign with daily rewards, and Random that of the prize draw.
	Attendance, Random string
	// Members is the number of members, who all took part between Began and Ended. Prizes is the
	// number of prizes that could be drawn, and Points the reward for one day of attendance.
	Members, Prizes, Points int
	Began, Ended            time.Time
	// Violations describe, in a sentence each, answers to a member that contradict each other.
	Violations []string
}

func (r *RewardsRun) campaigns() []string { return []string{r.Attendance, r.Random} }

// membersPerPrize is the number of members per prize from which on every prize should be drawn. The
// chance that one is left is then negligible.
const membersPerPrize = 20

// Judge computes the verdict on a run from the provider's ledger and the reward service's tables.
func (r *RewardsRun) Judge(ctx context.Context) (RewardsVerdict, Findings, error) {
	j := &rewardsJudge{RewardsRun: r, RewardsVerdict: RewardsVerdict{Expected: r.Members}}
	for _, judgePart := range []func(context.Context) error{j.judgeEntries, j.judgePrizeStock, j.judgeRewards, j.judgeReconciliation} {
		if err := judgePart(ctx); err != nil {
			return j.RewardsVerdict, j.Findings, err
		}
	}
	for _, violation := range r.Violations {
		j.Other++
		j.Add("%s", violation)
	}
	return j.RewardsVerdict, j.Findings, nil
}

// rewardsJudge collects the verdict on a run and the sentences that explain it.
type rewardsJudge struct {
	*RewardsRun
	RewardsVerdict
	Findings
}

// judgeEntries counts the members who attended and drew, and adds those who did either too often.
func (j *rewardsJudge) judgeEntries(ctx context.Context) error {
	err := j.DB.QueryRow(ctx, `
		SELECT count(*) FROM (SELECT DISTINCT member_id FROM event_entry WHERE event_id = $1) AS attended
		JOIN (SELECT DISTINCT member_id FROM event_entry WHERE event_id = $2) AS drew USING (member_id)`,
		j.Attendance, j.Random).Scan(&j.Participants)
	if err != nil {
		return err
	}
	if j.Participants != j.Expected {
		j.Add("%d of %d members attended and drew", j.Participants, j.Expected)
	}
	// In a run that goes on past midnight in Korea, members can attend on two days.
	for event, allowed := range map[string]int{j.Attendance: daysInKorea(j.Began, j.Ended), j.Random: 1} {
		rows, _ := j.DB.Query(ctx, `
			SELECT format('%s has %s entries in %s', member_id, count(*), event_id) FROM event_entry WHERE event_id = $1
			GROUP BY event_id, member_id HAVING count(*) > $2`, event, allowed) // CollectRows returns the error
		twice, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		j.Other += len(twice)
		for _, text := range twice {
			j.Add("%s", text)
		}
	}
	return nil
}

// daysInKorea returns the number of calendar days in Korea on which a part of the period lies.
func daysInKorea(start, end time.Time) int {
	day := func(t time.Time) int64 { return (t.Unix() + 9*60*60) / (24 * 60 * 60) } // KST is UTC+9
	return int(day(end)-day(start)) + 1
}

func (j *rewardsJudge) judgePrizeStock(ctx context.Context) error {
	rows, err := j.DB.Query(ctx, `
		SELECT p.name, p.initial, p.stock, count(e.id) FROM prizes AS p LEFT JOIN event_entry AS e ON e.prize_id = p.id
		WHERE p.event_id = $1 AND p.initial IS NOT NULL GROUP BY p.id ORDER BY p.id`, j.Random)
	if err != nil {
		return err
	}
	var name string
	var initial, stock, drawn, total int
	_, err = pgx.ForEachRow(rows, []any{&name, &initial, &stock, &drawn}, func() error {
		total += drawn
		if excess := max(drawn-initial, drawn+stock-initial, initial-stock-drawn); excess > 0 {
			j.Overdrawn += excess
			j.Add("of %d prizes %s, %d were drawn and %d are left", initial, name, drawn, stock)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if total < j.Prizes && j.Expected >= membersPerPrize*j.Prizes {
		j.Other++
		j.Add("only %d of %d prizes were drawn by %d members", total, j.Prizes, j.Expected)
	}
	return nil
}

// judgeRewards compares rewards with the entries that earned them, and counts those not paid.
func (j *rewardsJudge) judgeRewards(ctx context.Context) error {
	var missing, surplus, open int
	err := j.DB.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE has.right < earned.n), coalesce(sum(has.all - has.right) + sum(greatest(has.right - earned.n, 0)), 0)
		FROM event_entry AS e LEFT JOIN prizes AS p ON p.id = e.prize_id
		CROSS JOIN LATERAL (SELECT CASE WHEN e.event_id = $1 OR p.kind <> 'NONE' THEN 1 ELSE 0 END AS n) AS earned
		CROSS JOIN LATERAL (
			SELECT count(*) AS all,
			       count(*) FILTER (WHERE a.member_id = e.member_id AND a.reward_kind = coalesce(p.kind, 'POINT') AND a.reward_value = coalesce(p.value, $3)) AS right
			FROM event_reward_allocation AS a WHERE a.entry_id = e.id
		) AS has
		WHERE e.event_id IN ($1, $2)`, j.Attendance, j.Random, j.Points).Scan(&missing, &surplus)
	if err != nil {
		return err
	}
	err = j.DB.QueryRow(ctx, `SELECT count(*) FROM event_reward_allocation WHERE event_id = ANY($1) AND reward_status <> 'SUCCESS'`,
		j.campaigns()).Scan(&open)
	if err != nil {
		return err
	}
	j.Unpaid += missing + open
	j.Other += surplus
	for text, n := range map[string]int{"%d earned rewards do not exist": missing, "%d rewards were not earned": surplus, "%d rewards are not SUCCESS": open} {
		if n > 0 {
			j.Add(text, n)
		}
	}
	return nil
}

// judgeReconciliation counts the differences between the ledger and the tables in this run's
// campaigns. It ignores those of earlier runs, which may have injected faults.
func (j *rewardsJudge) judgeReconciliation(ctx context.Context) error {
	found, err := parseReconcile(j.Reconcile(ctx))
	if err != nil {
		return err
	}
	for _, f := range found {
		// judgeRewards counts these too, unless `reward reconcile` read the ledger too early.
		if !j.owns(f.key) || f.kind == "undecided" {
			continue
		}
		j.Differences++
		j.Add("%s", f.line)
		switch f.kind {
		case "paid_twice":
			j.PaidTwice++
		case "success_not_paid":
			j.Unpaid++
		}
	}
	return nil
}

// owns reports whether an idempotency key belongs to a reward of one of the run's campaigns.
func (r *RewardsRun) owns(key string) bool {
	escaped := func(id string) string { return strings.ReplaceAll(id, "-", "%2D") }
	return strings.HasPrefix(key, "att-"+escaped(r.Attendance)+"-") || strings.HasPrefix(key, "rand-"+escaped(r.Random)+"-")
}

// reconcileFinding is a line that `reward reconcile` prints about one idempotency key.
type reconcileFinding struct{ kind, key, line string }

// parseReconcile parses the output of `reward reconcile`. The exit code 1 means that there are
// differences. Any other code but 0 is an error: nothing was compared.
func parseReconcile(output string, code int) ([]reconcileFinding, error) {
	const differences = 1
	if code != 0 && code != differences {
		return nil, fmt.Errorf("reconcile: exit code %d: %s", code, strings.TrimSpace(output))
	}
	var found []reconcileFinding
	complete := false
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if complete = strings.HasPrefix(line, "reconcile: "); complete {
			continue
		}
		f, err := parseFinding(line)
		if err != nil {
			return nil, err
		}
		found = append(found, f)
	}
	if !complete {
		return nil, fmt.Errorf("reconcile: the output does not end with its counts: %q", output)
	}
	return found, nil
}

func parseFinding(line string) (reconcileFinding, error) {
	kind, rest, _ := strings.Cut(line, ": ")
	_, rest, found := strings.Cut(rest, "key ")
	quoted, err := strconv.QuotedPrefix(rest)
	if !found || err != nil {
		return reconcileFinding{}, fmt.Errorf("reconcile: unexpected line %q", line)
	}
	key, err := strconv.Unquote(quoted)
	return reconcileFinding{kind: kind, key: key, line: line}, err
}

// RewardsFaultKinds returns the kinds of faults that InjectFault accepts.
func RewardsFaultKinds() []string { return []string{damagePaidTwice, damageOverdrawn, damageUnpaid} }

const (
	damagePaidTwice = "paid_twice"
	damageOverdrawn = "overdrawn"
	damageUnpaid    = "unpaid"
)

// InjectFault damages the ledger or the tables directly, to show that Judge detects the fault.
func (r *RewardsRun) InjectFault(ctx context.Context, fault string) error {
	switch fault {
	case damagePaidTwice:
		return r.payAgain(ctx)
	case damageOverdrawn: // gives a prize to one more member
		return r.injectBySQL(ctx, `
			UPDATE event_entry SET prize_id = (SELECT id FROM prizes WHERE event_id = $1 AND initial IS NOT NULL ORDER BY id LIMIT 1)
			WHERE id = (SELECT e.id FROM event_entry AS e LEFT JOIN prizes AS p ON p.id = e.prize_id
			            WHERE e.event_id = $1 AND p.initial IS NULL ORDER BY e.id LIMIT 1)`, r.Random)
	case damageUnpaid: // changes a reward's key to one that the ledger does not know
		return r.injectBySQL(ctx, `
			UPDATE event_reward_allocation SET idempotency_key = idempotency_key || '-damaged'
			WHERE id = (SELECT id FROM event_reward_allocation WHERE event_id = $1 AND reward_status = 'SUCCESS' ORDER BY id LIMIT 1)`, r.Attendance)
	default:
		return fmt.Errorf("there is no damage %q", fault)
	}
}

func (r *RewardsRun) injectBySQL(ctx context.Context, sql, event string) error {
	tag, err := r.DB.Exec(ctx, sql, event)
	if err == nil && tag.RowsAffected() != 1 {
		err = errors.New("there is nothing to damage")
	}
	return err
}

// payAgain has the provider forget the key of a paid reward, and pay the reward a second time.
func (r *RewardsRun) payAgain(ctx context.Context) (err error) {
	var o sandbox.Order
	err = r.DB.QueryRow(ctx, `
		SELECT idempotency_key, member_id, reward_kind, reward_value FROM event_reward_allocation
		WHERE event_id = $1 AND reward_status = 'SUCCESS' AND resends = 0 ORDER BY id DESC LIMIT 1`, r.Attendance).Scan(&o.Key, &o.MemberID, &o.Kind, &o.Value)
	if errors.Is(err, pgx.ErrNoRows) {
		return errors.New("there is nothing to damage")
	}
	if err != nil {
		return err
	}
	before, err := r.Provider.Faults(ctx)
	if err != nil {
		return err
	}
	if err := r.Provider.SetFaults(ctx, sandbox.Faults{KeyRetention: time.Nanosecond}); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, r.Provider.SetFaults(context.WithoutCancel(ctx), before))
	}()
	return r.Provider.Pay(ctx, o)
}
