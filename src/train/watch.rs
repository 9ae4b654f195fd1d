//! Losses and gradient norms of steps whose device was not waited for.
//!
//! Each step's two numbers are copied to the CPU behind the step's own work. Before a later step begins, those that have
//! arrived are looked at, so that a run that diverges stops within a few steps, and its message names the first bad step. The
//! device is waited for only where its queue is many steps long, and before log lines, evaluations and checkpoints.

use crate::native::device::{copy_later, pinned};
use std::collections::VecDeque;
use tch::{Device, Kind, TchError, Tensor};

/// More steps than these are not left unread.
const MOST: usize = 16;
/// In a place into which nothing was copied yet: a loss and a norm are never negative.
const NOTHING: f64 = -1.0;

/// Numbers under way.
#[derive(Debug, Default)]
pub struct Watch {
    waiting: VecDeque<Waiting>,
    spare: Vec<Tensor>,
}

#[derive(Debug)]
struct Waiting {
    step: u64,
    /// Loss and norm, on the device.
    numbers: Tensor,
    /// On the CPU: what was copied of them.
    place: Tensor,
}

/// A step with a loss or a gradient that is not finite.
#[derive(Debug, Clone, PartialEq)]
pub struct NonFinite {
    /// Which.
    pub step: u64,
    /// In words.
    pub what: String,
}

impl Watch {
    /// Takes the loss and the gradient's norm of a step, tensors of one element.
    ///
    /// # Errors
    /// LibTorch's.
    pub fn add(&mut self, step: u64, loss: &Tensor, norm: &Tensor) -> Result<(), TchError> {
        tch::no_grad(|| {
            let number = |tensor: &Tensor| tensor.f_detach()?.f_to_kind(Kind::Double)?.f_reshape([1]);
            let numbers = Tensor::f_cat(&[number(loss)?, number(norm)?], 0)?;
            let mut place = match self.spare.pop() {
                Some(place) => place,
                None => {
                    let place = Tensor::f_empty([2], (Kind::Double, Device::Cpu))?;
                    // Only into pinned memory does a device copy while the CPU goes on.
                    if numbers.device() == Device::Cpu { None } else { pinned(&place) }.unwrap_or(place)
                }
            };
            let _ = place.f_fill_(NOTHING)?;
            copy_later(&mut place, &numbers)?;
            self.waiting.push_back(Waiting { step, numbers, place });
            Ok(())
        })
    }

    /// The first bad step among those whose numbers have arrived.
    ///
    /// # Errors
    /// LibTorch's.
    pub fn arrived(&mut self) -> Result<Option<NonFinite>, TchError> {
        while let Some(first) = self.waiting.front() {
            let numbers = match first.read() {
                Some(numbers) => numbers,
                None if self.waiting.len() > MOST => first.wait()?,
                None => break,
            };
            if let Some(bad) = self.look(numbers) {
                return Ok(Some(bad));
            }
        }
        Ok(None)
    }

    /// The first bad step of all; waits for the device.
    ///
    /// # Errors
    /// LibTorch's.
    pub fn all(&mut self) -> Result<Option<NonFinite>, TchError> {
        while let Some(first) = self.waiting.front() {
            let numbers = first.wait()?;
            if let Some(bad) = self.look(numbers) {
                return Ok(Some(bad));
            }
        }
        Ok(None)
    }

    /// Takes the first step, which has these numbers, from the queue.
    fn look(&mut self, [loss, norm]: [f64; 2]) -> Option<NonFinite> {
        let Waiting { step, place, .. } = self.waiting.pop_front()?;
        self.spare.push(place);
        let what = match (loss.is_finite(), norm.is_finite()) {
            (true, true) => return None,
            (false, _) => format!("the loss is {loss} at step {step}"),
            (true, false) => format!("the gradient's norm is {norm} at step {step}"),
        };
        Some(NonFinite { step, what })
    }
}

impl Waiting {
    /// What has arrived, if both numbers have.
    fn read(&self) -> Option<[f64; 2]> {
        let place = self.place.data_ptr().cast::<f64>();
        // SAFETY: the place holds two float64 and lives; a device may write them at any time, each in one piece.
        let numbers = unsafe { [place.read_volatile(), place.add(1).read_volatile()] };
        (!numbers.contains(&NOTHING)).then_some(numbers)
    }

    fn wait(&self) -> Result<[f64; 2], TchError> {
        let here = self.numbers.f_to_device(Device::Cpu)?;
        Ok([here.f_double_value(&[0])?, here.f_double_value(&[1])?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(watch: &mut Watch, step: u64, loss: f64, norm: f32) {
        watch.add(step, &Tensor::from(loss), &Tensor::from(norm)).unwrap();
    }

    #[test]
    fn the_first_bad_step_is_named() {
        for (loss, norm, what) in [
            (f64::NAN, 1.0, "the loss is NaN at step 3"),
            (2.0, f32::INFINITY, "the gradient's norm is inf at step 3"),
            (f64::INFINITY, f32::NAN, "the loss is inf at step 3"),
        ] {
            for waits in [false, true] {
                let mut watch = Watch::default();
                add(&mut watch, 1, 2.0, 0.0);
                add(&mut watch, 2, 0.0, 1.0);
                assert_eq!(if waits { watch.all() } else { watch.arrived() }.unwrap(), None);
                add(&mut watch, 3, loss, norm);
                add(&mut watch, 4, f64::NAN, f32::NAN);
                let found = if waits { watch.all() } else { watch.arrived() }.unwrap();
                assert_eq!(found, Some(NonFinite { step: 3, what: what.into() }));
            }
        }
    }

    #[test]
    fn what_has_not_arrived_is_left_until_there_is_much_of_it() {
        let mut watch = Watch::default();
        for step in 1..=MOST as u64 + 1 {
            add(&mut watch, step, if step == 1 { f64::NAN } else { 1.0 }, 1.0);
            // As a device does that is still at work.
            let _ = watch.waiting.back_mut().unwrap().place.get(1).fill_(NOTHING);
            let found = watch.arrived().unwrap();
            assert_eq!(found.map(|found| found.step), (step == MOST as u64 + 1).then_some(1), "{step}");
        }
        assert!(watch.all().unwrap().is_none() && watch.waiting.is_empty());
    }
}
