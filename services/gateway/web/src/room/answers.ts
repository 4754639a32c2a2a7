// Responses of the waiting room's API.

import type { EventStatus } from "../lib/types";
import type { Next, Standing } from "./line";

export interface Joined {
  requestId: string;
  opensAt: number;
  closesAt: number;
  ticket: string;
  receipt: string;
}

export interface Assigned extends Standing {
  servingCounter: number;
  estimatedWait?: number;
  nextPoll: number;
}

export interface Checked {
  admitted: boolean;
  position: number;
  servingCounter: number;
  ahead: number;
  estimatedWait?: number;
  nextPoll: number;
  ticket?: string;
  saleStatus?: EventStatus;
  phase?: "LOBBY";
  opensAt?: number;
  asksAt?: number;
  next?: Next;
}

export interface Challenge {
  challenge: string;
  difficulty: number;
  // Epoch milliseconds.
  expiresAt: number;
}

export interface Serving {
  servingCounter: number;
  isActive: boolean;
  saleStatus?: EventStatus;
}
