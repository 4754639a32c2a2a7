package dynamo_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/uuid"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/services/vwr/internal/dynamo"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// A process started with these is a replica that dies in the middle of a group.
const (
	crashEndpoint = "VWR_TEST_CRASH_ENDPOINT"
	crashPrefix   = "VWR_TEST_CRASH_PREFIX"
)

const crashEvent, crashVisitors, crashAtPut = "crash", 20, 7

func TestMain(m *testing.M) {
	if endpoint := os.Getenv(crashEndpoint); endpoint != "" {
		dieInAGroup(endpoint, os.Getenv(crashPrefix))
	}
	os.Exit(m.Run())
}

// dieInAGroup lets visitors come at once and kills its process when the records begin to be written: the counter has moved by then.
func dieInAGroup(endpoint, prefix string) {
	cfg := pkgdynamo.Config{Region: "local", Endpoint: endpoint, Prefix: prefix}
	db, err := pkgdynamo.Open(context.Background(), cfg)
	if err != nil {
		panic(err)
	}
	var puts, answered atomic.Int64
	settled := make(chan struct{})
	s := dynamo.New(awsdynamo.New(db.Options(), tap{
		before: func(in any) error {
			if isPut(in) && puts.Add(1) >= crashAtPut {
				<-settled // what is still on its way would be stored after the parent has looked
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			return nil
		},
		after: func(in, _ any) error {
			if isPut(in) && answered.Add(1) == crashAtPut-1 {
				close(settled)
			}
			return nil
		},
	}.options), cfg, 1, time.Now)
	c, _, err := s.Read(context.Background(), crashEvent)
	if err != nil {
		panic(err)
	}
	var work sync.WaitGroup
	for i := range crashVisitors {
		work.Go(func() {
			_, _ = s.Take(context.Background(), crashEvent, c.Round, fmt.Sprint(i), []uuid.UUID{visitorID(i)})
		})
	}
	work.Wait()
	os.Exit(0) // not killed: the parent tells
}

func visitorID(i int) uuid.UUID { return uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i)) }

// A replica killed between the counter's write and the records' leaves gaps and nothing else: what is stored keeps its position, the
// others get new ones behind every position given out before.
func TestKilledReplicaLeavesGaps(t *testing.T) {
	t.Parallel()
	cfg, db := dynamotest.Tables(t)
	if err := dynamo.Migrate(t.Context(), db, cfg); err != nil {
		t.Fatal(err)
	}
	s := dynamo.New(db, cfg, 1, time.Now)
	c := roomtest.Open(t, s, crashEvent, room.DefaultSettings())

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), crashEndpoint+"="+cfg.Endpoint, crashPrefix+"="+cfg.Prefix)
	out, err := child.CombinedOutput()
	if status, ok := child.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the replica was not killed: %v\n%s", err, out)
	}

	before := roomtest.Read(t, s, crashEvent).Issued
	stored := make(map[int]room.Record)
	for i := range crashVisitors {
		r, found, err := s.Find(t.Context(), crashEvent, visitorID(i))
		if err != nil {
			t.Fatal(err)
		}
		if found {
			stored[i] = r
		}
	}
	if len(stored) >= crashVisitors || before <= int64(len(stored)) {
		t.Fatalf("%d records of %d positions: the replica died too late to prove anything", len(stored), before)
	}
	seen := make(map[int64]bool)
	for i := range crashVisitors {
		r, err := s.Take(t.Context(), crashEvent, c.Round, fmt.Sprint(i), []uuid.UUID{visitorID(i)})
		if err != nil {
			t.Fatal(err)
		}
		if old, ok := stored[i]; ok && r != old {
			t.Errorf("visitor %d had %+v and now has %+v", i, old, r)
		} else if !ok && r.Position <= before {
			t.Errorf("visitor %d got position %d, though %d were given out", i, r.Position, before)
		}
		if seen[r.Position] {
			t.Errorf("position %d twice", r.Position)
		}
		seen[r.Position] = true
	}
}
